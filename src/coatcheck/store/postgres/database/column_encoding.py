"""How many rows go into one statement: each column as one text, its values between separators.

The server takes it apart with `string_to_array(column, separator, nothing)`. The driver would also
send an array a column, but it looks at every element several times in Python: for a job's 34 values
that costs more than everything else a submit does.

- The separator, and the mark that stands for NULL, occur in none of the values: that is counted,
  and where they do occur, others are taken.
- A column of nothing but NULLs is sent as NULL; `unnest` fills it up.
- Where the statement can take it, a column whose values are all the same is sent once.
- One row with an empty text would be an empty array to the server, so a separator is sent. It makes
  a second row, of which the key is NULL: statements take rows that have a key.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from typing import Any

SEPARATOR = "\x1f"
NOTHING = "\x1e"

Column = Sequence[Any]


def as_texts(columns: Sequence[Column], once: Collection[int] = ()) -> list[str | None]:
    """Return the separator, the mark for NULL and a text for each column.

    `once` are the columns of which one value is enough where all are the same.
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
    """Return the same for rows, of which there is at least one."""
    return as_texts(list(zip(*rows, strict=True)))


def _joined(columns: Sequence[Column], separator: str, nothing: str) -> list[str | None] | None:
    """Join each column; None when the separator or the mark is among the values."""
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
