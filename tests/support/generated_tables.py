"""Tables that a command prints, or writes into the document that has them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path


def main(module: str, described: str | None, page: Path, block: Callable[[], str], put: Callable[[str], str]) -> None:
    """Print `block()`, or with `--write` put it into `page`; `put` gives the page's text with the tables."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=described)
    parser.add_argument("--write", action="store_true", help=f"write the tables into {page.name}")
    if parser.parse_args().write:
        page.write_text(put(page.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(block())
