from __future__ import annotations

from coatcheck.surfaces.graphs.analysis.python.archive import Archive
from coatcheck.surfaces.graphs.analysis.python.linking import Linker
from coatcheck.surfaces.graphs.analysis.python.summary import PythonSummary
from coatcheck.surfaces.graphs.analysis.summarising import summarise_one

PROGRAM = b"""
import functools

class Box:
    @functools.cache
    def open(self, *keys):
        return [key() for key in keys][0]

with Box() as box:
    box.open(print)
"""
KEPT = {"places", "definitions", "exports", "public", "package", "stars"}


def test_what_a_file_says_waits_as_bytes_and_is_linked_the_same() -> None:
    summary: PythonSummary = summarise_one("main.py", PROGRAM).summary
    expected = Linker(Archive({"main.py": summarise_one("main.py", PROGRAM).summary}, set())).link()
    summary.pack()
    assert not any(
        getattr(summary, name) for name in PythonSummary.__slots__ if name not in KEPT | {"packed"}
    )
    linked = Linker(Archive({"main.py": summary}, set())).link()
    assert linked.calls == expected.calls
    assert linked.imported == expected.imported
    assert not summary.packed


def test_what_a_file_says_is_forgotten_once_it_is_linked() -> None:
    summary: PythonSummary = summarise_one("main.py", PROGRAM).summary
    statements = [name for name in PythonSummary.__slots__ if name not in KEPT]
    assert summary.calls
    assert summary.loads
    linker = Linker(Archive({"main.py": summary}, set()))
    linked = linker.link()
    assert linked.calls
    assert {name: getattr(summary, name) for name in statements if getattr(summary, name)} == {}
    assert not vars(linker)
