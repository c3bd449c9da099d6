"""`python -m tests.families` prints the tables of families, with `--write` it puts them into README.md."""

from __future__ import annotations

import argparse

from tests.families.table import README, block, with_block


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.families", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into README.md")
    if parser.parse_args().write:
        README.write_text(with_block(README.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(block())


if __name__ == "__main__":
    main()
