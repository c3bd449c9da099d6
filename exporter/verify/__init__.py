"""Floor 7: climb from eager PyTorch to the bundle and name the first rung that differs."""
