"""Read XLSX: a page for each sheet with its name as a heading, and a line for each non-empty row.

Cells have their saved values, not their formulas. A sheet is read as a stream, and its declared
dimensions are ignored. Rows are limited for each sheet, cells for the whole workbook. Each sheet
must be a part of its own: a workbook that lists one part many times is rejected.
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

from coatcheck.surfaces.ingest.readers.errors import HOSTILE, NO_TEXT, UnreadableDocument
from coatcheck.surfaces.ingest.readers.office import is_media
from coatcheck.surfaces.ingest.readers.text_builder import (
    TextBuilder,
    TextLimitReached,
    collapse_whitespace,
)

MAX_ROWS = 100_000
# In all sheets together, including empty cells between others.
_MAX_CELLS = 5_000_000


class _Sheet(ReadOnlyWorksheet):  # type: ignore[misc]  # openpyxl has no types
    """A sheet that is not read while its workbook is opened."""

    def _get_size(self) -> None:
        """Check the sheet's part; openpyxl would read all of it to find its size."""
        parts = self.parent.__dict__.setdefault("_parts_of_sheets", set())
        if self._worksheet_path in parts or is_media(self._worksheet_path):
            message = "two sheets of the workbook share one part"
            raise UnreadableDocument(HOSTILE, message)
        parts.add(self._worksheet_path)


excel.ReadOnlyWorksheet = _Sheet


@dataclass
class _Budget:
    """The cells of a workbook that may still be read."""

    cells: int


def read_xlsx(path: Path, builder: TextBuilder) -> None:
    """Read a workbook, including hidden sheets."""
    # As a file, because openpyxl rejects a path that does not end in .xlsx.
    with path.open("rb") as file:
        workbook = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
        builder.title = collapse_whitespace(workbook.properties.title or "")
        if not _add_sheets(workbook, builder):
            raise UnreadableDocument(NO_TEXT, "no text: the workbook's sheets are empty")


def _add_sheets(workbook: Any, builder: TextBuilder) -> bool:
    """Add the sheets; return whether any has content."""
    has_content = False
    budget = _Budget(_MAX_CELLS)
    for sheet in workbook.worksheets:
        builder.begin_page()
        builder.heading(1, sheet.title)
        try:
            has_content = _add(sheet, budget, builder) or has_content
        except TextLimitReached:
            raise
        except Exception:  # noqa: BLE001 - read the other sheets, whatever the error
            builder.problem("this sheet is damaged; rows of it may be missing")
            has_content = True
    return has_content


def _add(sheet: Any, budget: _Budget, builder: TextBuilder) -> bool:
    """Add a sheet's rows; return whether it has any."""
    sheet.reset_dimensions()
    rows = 0
    values: Sequence[object]
    for values in sheet.iter_rows(values_only=True):
        budget.cells -= len(values) or 1
        texts = list(_row_texts(values))
        if texts:
            rows += 1
            builder.row(texts)
        if rows == MAX_ROWS or budget.cells <= 0:
            builder.problem(f"only the first {rows:,} rows of this sheet were read")
            break
    return rows > 0


def _row_texts(values: Sequence[object]) -> Iterator[str]:
    """Yield a row's values as texts, without trailing empty cells."""
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
