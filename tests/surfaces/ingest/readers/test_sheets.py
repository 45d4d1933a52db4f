"""Reading XLSX sheet by sheet, whatever size a sheet declares."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from pathlib import Path

import pytest

from coatcheck.surfaces.ingest.chunker import chunk
from coatcheck.surfaces.ingest.readers import sheets

from .documents import read_content, read_error, with_part, workbook

MOMENT = datetime(2026, 1, 2, 3, 4)  # noqa: DTZ001 - workbooks know no time zones
SHEET = "xl/worksheets/sheet1.xml"


def test_sheets_are_pages_of_rows(tmp_path: Path) -> None:  # I02
    content = workbook(
        {
            "Prices": [("What", "Price"), ("Coat", 3), (), ("Hat", 1.5)],
            "Hours": [
                (None, "Monday", time(9, 30)),
                (date(2026, 1, 2), MOMENT),
            ],
            "Empty": [],
            "Kinds": [(True, 0.1 + 0.2, 1e21, "a | b\nc", 12.0)],
        }
    )
    found = read_content(tmp_path, content, "prices.xlsx")
    assert (found.format, found.title) == ("xlsx", "prices.xlsx")
    pages = [found.text[start:] for start in found.page_starts]
    assert pages[0].startswith(
        "# Prices\n\n| What | Price |\n| Coat | 3 |\n| Hat | 1.5 |\n\n# Hours"
    )
    assert pages[1].startswith(
        "# Hours\n\n|  | Monday | 09:30:00 |\n| 2026-01-02 | 2026-01-02 03:04:00 |\n\n# Empty"
    )
    assert pages[2].startswith("# Empty\n\n# Kinds")
    assert pages[3] == "# Kinds\n\n| TRUE | 0.3 | 1e+21 | a \\| b c | 12 |"


def test_passage_of_rows_has_its_sheet_and_columns_as_headings(tmp_path: Path) -> None:
    rows = [("Name", "Colour"), *((f"coat number {n}", "a dark blue") for n in range(200))]
    passages = chunk(
        read_content(tmp_path, workbook({"Coats": rows, "Hats": [("Name",), ("Cap",)]}))
    )
    assert len(passages) > 3
    assert passages[0].headings == ()
    assert passages[1].headings == ("Coats", "Name | Colour")
    assert (passages[-1].page, passages[-1].text) == (2, "# Hats\n\n| Name |\n| Cap |")


def test_rows_of_a_sheet_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MAX_ROWS", 50)
    content = workbook({"Long": [(n,) for n in range(200)], "Next": [("here",)]})
    found = read_content(tmp_path, content)
    assert [(problem.page, problem.reason) for problem in found.problems] == [
        (1, "only the first 50 rows of this sheet were read")
    ]
    assert "| 49 |\n\n# Next\n\n| here |" in found.text


def test_declared_size_of_a_sheet_is_ignored(tmp_path: Path) -> None:
    content = with_part(
        workbook({"Small": [("a", "b"), ("c",)]}),
        SHEET,
        lambda part: re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1:XFD1048576"', part),
    )
    assert read_content(tmp_path, content).text == "# Small\n\n| a | b |\n| c |"


def test_cells_of_a_workbook_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "_MAX_CELLS", 30_000)
    row = b'<row r="%d"><c r="XFD%d" t="n"><v>1</v></c></row>'
    data = b"<sheetData>" + b"".join(row % (n, n) for n in range(1, 9)) + b"</sheetData>"
    content = with_part(
        workbook({"Wide": [("a",)]}),
        SHEET,
        lambda part: re.sub(rb"<sheetData>.*</sheetData>", data, part),
    )
    found = read_content(tmp_path, content)
    assert [problem.reason for problem in found.problems] == [
        "only the first 2 rows of this sheet were read"
    ]


def test_damaged_sheet_does_not_lose_the_rest(tmp_path: Path) -> None:  # I02
    content = with_part(
        workbook({"Bad": [("a",)], "Good": [("b",)]}),
        SHEET,
        lambda part: part.replace(b"</sheetData>", b"</other>"),
    )
    found = read_content(tmp_path, content)
    assert [problem.page for problem in found.problems] == [1]
    assert found.text.endswith("# Good\n\n| b |")


def test_empty_workbook_has_no_text(tmp_path: Path) -> None:
    assert read_error(tmp_path, workbook({"Empty": []}))[0] == "document-no-text"
