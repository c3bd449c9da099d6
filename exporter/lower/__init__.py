"""Floor 5: traced methods to backend programs. A backend SDK is imported in its own file only."""
