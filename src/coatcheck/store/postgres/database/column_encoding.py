"""Encode many rows for one statement: each column as one text, with separators between values.

The server splits it with `string_to_array(column, separator, nothing)`. The driver could send an
array for each column, but it inspects every element several times in Python. For the 34 values of a
job that costs more than everything else in a submit.

- Neither the separator nor the mark for NULL occurs in any value. The encoder counts occurrences to
  check this; if one does occur, other marks are used.
- A column of only NULLs is sent as NULL; `unnest` fills it up.
- If the statement supports it, a column whose values are all equal is sent once.
- For one row with an empty text, the server would see an empty array. So a separator is sent. This
  makes a second row whose key is NULL; statements use only rows that have a key.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any

SEPARATOR = "\x1f"
NOTHING = "\x1e"

Column = Sequence[Any]


def as_texts(columns: Sequence[Column], once: Collection[int] = ()) -> list[str | None]:
    """Return the separator, the mark for NULL, and a text for each column.

    `once` are the columns for which one value is sent if all are equal.
    """
    columns = list(columns)
    for number in once:
        values = columns[number]
        if values.count(values[0]) == len(values):
            columns[number] = values[:1]
    separator, nothing = SEPARATOR, NOTHING
    while True:
        texts = _joined(columns, separator, nothing)
        if texts is not None:
            return [separator, nothing, *texts]
        mark = secrets.token_hex(8)
        separator, nothing = f"{SEPARATOR}{mark}", f"{NOTHING}{mark}"


def in_columns(rows: Sequence[Sequence[Any]]) -> list[str | None]:
    """Return the same for rows, of which there must be at least one."""
    return as_texts(list(zip(*rows, strict=True)))


def _joined(columns: Sequence[Column], separator: str, nothing: str) -> list[str | None] | None:
    """Join each column. Returns None if the separator or the mark occurs in a value."""
    texts: list[str | None] = []
    for values in columns:
        missing = values.count(None)
        if missing == len(values):
            texts.append(None)
            continue
        if missing or not isinstance(values[0], str):
            values = [nothing if value is None else str(value) for value in values]  # noqa: PLW2901
        text = separator.join(values)
        if text.count(separator) != len(values) - 1 or text.count(nothing) != missing:
            return None
        texts.append(text or separator)
    return texts
