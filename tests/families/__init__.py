"""The table of families in README.md: what is tested, and what is refused. `python -m tests.families --write`."""
