"""XLSX: a page for each sheet, its name as a heading, and a line for each row that has something.

Values are those that the workbook was saved with, not its formulas. A sheet is read as a stream;
what it says of its own size is not believed. Rows are limited for each sheet, cells for the whole
workbook. Each sheet is a part of its own: a workbook that lists one part many times is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
from openpyxl.reader import excel
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from coatcheck.surfaces.ingest.readers.draft import Draft, Full, on_one_line
from coatcheck.surfaces.ingest.readers.errors import HOSTILE, NO_TEXT, UnreadableDocument
from coatcheck.surfaces.ingest.readers.office import is_media

MOST_ROWS = 100_000
# In all sheets together, and with those without a value, which stand between others.
_MOST_CELLS = 5_000_000


class _Sheet(ReadOnlyWorksheet):  # type: ignore[misc]  # openpyxl has no types
    """A sheet that is not read while its workbook is opened."""

    def _get_size(self) -> None:
        """Check the sheet's part; openpyxl would read all of it to find its size."""
        parts = self.parent.__dict__.setdefault("_parts_of_sheets", set())
        if self._worksheet_path in parts or is_media(self._worksheet_path):
            said = "a sheet of the workbook has no part of its own"
            raise UnreadableDocument(HOSTILE, said)
        parts.add(self._worksheet_path)


excel.ReadOnlyWorksheet = _Sheet


@dataclass
class _Budget:
    """What is left to be read of a workbook."""

    cells: int


def read_xlsx(path: Path, draft: Draft) -> None:
    """Read a workbook, hidden sheets as well."""
    # As a file, not a path: by its path openpyxl wants it to have a name that ends in .xlsx.
    with path.open("rb") as file:
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        draft.title = on_one_line(workbook.properties.title or "")
        if not _add_sheets(workbook, draft):
            raise UnreadableDocument(NO_TEXT, "no text: the workbook's sheets are empty")


def _add_sheets(workbook: Any, draft: Draft) -> bool:
    """Add the sheets; tells whether there is anything in them."""
    anything = False
    budget = _Budget(_MOST_CELLS)
    for sheet in workbook.worksheets:
        draft.begin_page()
        draft.heading(1, sheet.title)
        try:
            anything = _add(sheet, budget, draft) or anything
        except Full:
            raise
        except Exception:  # noqa: BLE001 - whatever is wrong with a sheet, the others are read
            draft.problem("this sheet is damaged; rows of it may be missing")
            anything = True
    return anything


def _add(sheet: Any, budget: _Budget, draft: Draft) -> bool:
    """Add a sheet's rows; tells whether it has any."""
    sheet.reset_dimensions()
    rows = 0
    values: Sequence[object]
    for values in sheet.iter_rows(values_only=True):
        budget.cells -= len(values) or 1
        shown = list(_shown(values))
        if shown:
            rows += 1
            draft.row(shown)
        if rows == MOST_ROWS or budget.cells <= 0:
            draft.problem(f"only the first {rows:,} rows of this sheet were read")
            break
    return rows > 0


def _shown(values: Sequence[object]) -> Iterator[str]:
    """Yield a row's values as texts, up to the last that there is."""
    last = len(values)
    while last and values[last - 1] in (None, ""):
        last -= 1
    for value in values[:last]:
        yield _text(value)


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return f"{value:.15g}"
        case datetime() if value.time() == time():
            return value.date().isoformat()
        case datetime():
            return value.isoformat(" ", "seconds")
        case date() | time():
            return value.isoformat()
        case timedelta():
            return str(value)
        case _:
            return str(value)
