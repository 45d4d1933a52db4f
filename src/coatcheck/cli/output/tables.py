"""Tables that fit the terminal.

If a terminal is too narrow, the last column is truncated first, then whole columns are dropped,
the least important first. Values to copy, such as ids, are never truncated. In a pipe a table is
as wide as it needs to be.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from coatcheck.cli.output.terminal import out, plain

GAP = "  "
MIN_WIDTH = 12  # of the last column, before other columns are dropped


class TableColumn(NamedTuple):
    """A column. The one with the largest `rank` is dropped first; rank 0 is never dropped."""

    title: str
    rank: int = 0


def print_table(columns: Sequence[TableColumn], rows: Sequence[Sequence[object]]) -> None:
    """Print rows and their titles on stdout."""
    console = out()
    cells = [[column.title for column in columns], *([plain(cell) for cell in row] for row in rows)]
    for number, line in enumerate(lay_out(columns, cells, console.width)):
        console.print(line, style="bold" if number == 0 else None, soft_wrap=True)


def print_pairs(pairs: Sequence[tuple[str, object]]) -> None:
    """Print names and values, one pair on each line; skip empty values."""
    shown = [(name, plain(value)) for name, value in pairs if value not in (None, "")]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out().print(f"{name:<{width}}  {value}", soft_wrap=True)


def lay_out(columns: Sequence[TableColumn], cells: list[list[str]], width: int) -> list[str]:
    """Return the lines of a table, fitted to a width."""
    widths = [max(cell_len(row[at]) for row in cells) for at in range(len(columns))]
    kept = list(range(len(columns)))
    while _width(kept, widths) > width:
        droppable = [at for at in kept if columns[at].rank]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda at: columns[at].rank))
    last = kept[-1]
    if len(kept) > 1 and not columns[last].rank:
        return [_line(row, kept, widths) for row in cells]
    left = width - sum(widths[at] + len(GAP) for at in kept[:-1])
    widths[last] = min(widths[last], max(1, left))
    return [_line(row, kept, widths) for row in cells]


def _width(kept: Sequence[int], widths: Sequence[int]) -> int:
    """Return the minimum width of these columns; the last one may be truncated."""
    before = sum(widths[at] + len(GAP) for at in kept[:-1])
    return before + min(MIN_WIDTH, widths[kept[-1]])


def _line(row: Sequence[str], kept: Sequence[int], widths: Sequence[int]) -> str:
    return GAP.join(_fit(row[at], widths[at]) for at in kept).rstrip()


def _fit(text: str, width: int) -> str:
    return set_cell_size(truncate(text, width), width)


def truncate(text: str, width: int) -> str:
    """Return a text that takes at most this many terminal cells."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 1)) + ("…" if _can_print("…") else ".")


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
