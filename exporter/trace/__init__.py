"""Floor 4: the only place that imports `torch.export`."""
