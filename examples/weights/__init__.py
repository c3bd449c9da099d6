"""Helpers of ``real_weights.py``: where packaged weights lie, and how to turn them into checkpoints."""
