"""`python -m tests.recipe_tables` prints the tables of recipes, with `--write` it puts them into docs/recipes.md."""

from __future__ import annotations

import argparse

from tests.recipe_tables.table import PAGE, block, with_block


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recipe_tables", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/recipes.md")
    if parser.parse_args().write:
        PAGE.write_text(with_block(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        print(block())


if __name__ == "__main__":
    main()
