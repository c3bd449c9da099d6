"""Token ids as people write them: the text of one row.

Ids are separated by commas, spaces, tabs or line ends, as many of them as one likes. An id is a plain decimal
integer: digits of ASCII, at most 18 of them so that every machine can hold it, behind a minus sign perhaps. What
Python's `int` takes beyond that (`+5`, `5_0`, digits of other scripts) is refused, as it is by every other runtime.
Whether a vocabulary has the id is checked when a request begins.
"""

from __future__ import annotations

import re

from runtime_shims.contract.errors import UserInputError
from runtime_shims.contract.strict_json import shown

_SEPARATORS = re.compile(r"[, \t\n]+")
_ID = re.compile(r"-?[0-9]{1,18}")
_ADVICE = "give whole numbers separated by commas"


def parse_ids(text: str, where: str) -> tuple[int, ...]:
    """The ids of one row, at least one. `where` names the text in messages. Raises UserInputError."""
    parts = [part for part in _SEPARATORS.split(text) if part]
    for part in parts:
        if not _ID.fullmatch(part):
            raise UserInputError(f"{where} holds {shown(part)}, which is no token id; {_ADVICE}")
    if not parts:
        raise UserInputError(f"{where} holds no token id; {_ADVICE}")
    return tuple(map(int, parts))
