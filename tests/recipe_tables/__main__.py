"""`python -m tests.recipe_tables` prints the tables of recipes, with `--write` it puts them into docs/recipes.md."""

from __future__ import annotations

from tests.recipe_tables.table import PAGE, block, with_block
from tests.support.generated_tables import main

if __name__ == "__main__":
    main("tests.recipe_tables", __doc__, PAGE, block, with_block)
