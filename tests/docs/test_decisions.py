"""Decision records have one number: in the file name, the heading and the list."""

from __future__ import annotations

import re

from .pages import ROOT

FOLDER = ROOT / "docs/decisions"


def test_a_decision_has_the_number_of_its_file() -> None:
    pages = sorted(FOLDER.glob("[0-9]*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == list(range(1, len(pages) + 1))
    headings = [page.read_text().partition("\n")[0] for page in pages]
    assert [int(re.findall(r"^# (\d+)\. \S", line)[0]) for line in headings] == numbers


def test_every_decision_is_listed_under_its_number() -> None:
    text = (FOLDER / "README.md").read_text()
    listed = re.findall(r"^(\d+)\. \[.+\]\((.+)\)$", text, re.MULTILINE)
    pages = sorted(page.name for page in FOLDER.glob("[0-9]*.md"))
    assert listed == [(str(int(name[:4])), name) for name in pages]
