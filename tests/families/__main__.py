"""`python -m tests.families` prints the tables of families, with `--write` it puts them into README.md."""

from __future__ import annotations

from tests.families.table import README, block, with_block
from tests.support.generated_tables import main

if __name__ == "__main__":
    main("tests.families", __doc__, README, block, with_block)
