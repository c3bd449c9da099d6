"""Floor 6: what a bundle holds beside its programs, and writing it all aside, then at once."""
