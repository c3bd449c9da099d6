"""How the commands draw tables: one look, titles that never wrap in the middle of a narrow table."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text


def new_table(columns: Sequence[str]) -> Table:
    """An empty table. A column whose name starts with ">" is aligned to the right."""
    table = Table(box=box.ROUNDED, header_style="dim", border_style="dim")
    for column in columns:
        right = column.startswith(">")
        table.add_column(column.removeprefix(">"), justify="right" if right else "left")
    return table


def titled(title: str, *parts: Table | Text) -> Group:
    """Parts under a title, with a line of space before it."""
    return Group(Text(f"\n{title}", "bold"), *parts)
