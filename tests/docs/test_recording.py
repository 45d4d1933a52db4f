"""The recorded terminal session in the README is still accurate."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from .pages import ROOT

PICTURE = ROOT / "docs/pictures/session.svg"


def words_of(svg: str) -> list[str]:
    """Return the text of a screen without numbers, which differ between runs."""
    lines = re.findall(r"<text[^>]*>(.*?)</text>", svg, re.DOTALL)
    text = html.unescape(" ".join(lines)).replace("\xa0", " ")
    return re.sub(r"\d+", "0", text).split()


def test_it_fetches_nothing_and_is_well_formed() -> None:
    text = PICTURE.read_text()
    ET.fromstring(text)
    assert "url(http" not in text
    assert "<script" not in text
    assert "<image" not in text


def test_the_commands_still_print_the_same(tmp_path: Path) -> None:
    again = tmp_path / "session.svg"
    subprocess.run([sys.executable, ROOT / "docs/recording.py", again], check=True)
    assert words_of(again.read_text()) == words_of(PICTURE.read_text())
