"""Summaries come back part by part, and the linker releases what the graph does not need."""

from __future__ import annotations

from coatcheck.codegraph.points_to.archive import SourceArchive
from coatcheck.codegraph.points_to.linker import Linker
from coatcheck.codegraph.summarizer import summarize_file
from coatcheck.codegraph.summary import ModuleSummary

PROGRAM = b"""
import functools

class Box:
    @functools.cache
    def open(self, *keys):
        return [key() for key in keys][0]

with Box() as box:
    box.open(print)
"""
PARTS = ("head", "definitions", "made", "names", "items", "actions")


def summary_of(source: bytes) -> ModuleSummary:
    summary = summarize_file("main.py", source).summary
    assert isinstance(summary, ModuleSummary)
    return summary


def test_packed_summary_is_loaded_part_by_part() -> None:
    summary = summary_of(PROGRAM)
    packed = summary.pack()
    assert packed.load("actions").calls == summary.calls != []
    assert packed.load("actions").loads == []
    assert packed.load(*PARTS) == summary


def test_dropped_part_is_released() -> None:
    packed = summary_of(PROGRAM).pack()
    size = packed.size
    packed.drop("actions", "names")
    assert packed.size < size
    assert packed.load("definitions").definitions


def test_linker_keeps_only_the_call_edges() -> None:
    packed = summary_of(PROGRAM).pack()
    linker = Linker(SourceArchive({"main.py": packed}, set()))
    linked = linker.link()
    assert vars(linker).keys() == {"call_edges", "_values"}
    assert [(target, line) for _, target, line in linked.calls] == [("functools.cache", 5)]
