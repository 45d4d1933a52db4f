"""The documentation's pages show the current drawings."""

from __future__ import annotations

import contextlib
import io
import runpy
from pathlib import Path

import pytest

from tests.docs.pages import blocks, write_python_files
from tests.surfaces.render.drawing.picture_analysis import decode
from tests.surfaces.render.drawing.pictures import DOCS, pictures

PAGE = DOCS / "reference/diagrams.md"


def test_pictures_match_their_sources() -> None:
    drawn = dict(pictures())
    assert len(drawn) == 4
    others = {DOCS / "pictures" / "session.svg"}  # tests/docs/test_recording.py
    others |= set((DOCS / "pictures").glob("cockpit-*.png"))  # tests/ui/test_pictures.py
    others.add(DOCS / "pictures" / "formula.png")  # drawn by a browser, whose versions differ
    assert set(drawn) == set((DOCS / "pictures").iterdir()) - others
    for path, content in drawn.items():
        assert path.read_bytes() == content, f"{path.name}: draw it again (pictures.py)"


def test_example_prints_the_documented_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_python_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path("draw.py")
    (shown,) = (block.text for block in blocks(PAGE) if block.language == "text")
    assert printed.getvalue() == shown
    assert decode(Path("ticket.png").read_bytes()).width > 100
