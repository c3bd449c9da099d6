"""The commands of `run-model`, one file each, and what they share."""
