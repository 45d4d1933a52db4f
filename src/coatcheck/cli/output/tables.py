"""Tables that fit the terminal.

Where a terminal is too narrow, the last column is cut first and then whole columns are left out,
the least important first; what has to be copied, such as an id, is never cut. A table that is
piped is as wide as it needs to be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from coatcheck.cli.output.terminal import out, plain

GAP = "  "
LEAST = 12  # of the last column, before others give way


class TableColumn(NamedTuple):
    """A column; of the larger `rank` is left out first, 0 stays."""

    title: str
    rank: int = 0


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their titles on stdout."""
    console = out()
    cells = [[column.title for column in columns], *([plain(cell) for cell in row] for row in rows)]
    for number, line in enumerate(lay_out(columns, cells, console.width)):
        console.print(line, style="bold" if number == 0 else None, soft_wrap=True)


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names with their values, one a line; values that are empty are left out."""
    shown = [(name, plain(value)) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out().print(f"{name:<{width}}  {value}", soft_wrap=True)


def lay_out(columns: Sequence[TableColumn], cells: list[list[str]], width: int) -> list[str]:
    """Return the lines of a table that fits a width as well as it can."""
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(columns))]
    kept = list(range(len(columns)))
    while _width(kept, widths) > width:
        dispensable = [at for at in kept if columns[at].rank]
        if not dispensable:
            break
        kept.remove(max(dispensable, key=lambda at: columns[at].rank))
    last = kept[-1]
    if len(kept) > 1 and not columns[last].rank:
        return [_line(row, kept, widths) for row in cells]
    room = width - sum(widths[at] + len(GAP) for at in kept[:-1])
    widths[last] = min(widths[last], max(1, room))
    return [_line(row, kept, widths) for row in cells]


def _width(kept: Sequence[int], widths: Sequence[int]) -> int:
    """Return the least width of these columns: the last one may be cut."""
    before = sum(widths[at] + len(GAP) for at in kept[:-1])
    return before + min(LEAST, widths[kept[-1]])


def _line(row: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> str:
    return GAP.join(_fit(row[at], widths[at]) for at in kept).rstrip()


def _fit(text: str, width: int) -> str:
    return set_cell_size(cut(text, width), width)


def cut(text: str, width: int) -> str:
    """Return a text that takes up so many cells at most."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + ("…" if _can_print("…") else ".")


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
