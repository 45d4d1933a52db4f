"""The CPU time of an analysis is bounded by the size of the archive."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from coatcheck.codegraph import SourceFile, analyze, languages
from tests.codegraph.cpu_limit import BASE_S, within
from tests.codegraph.hostile import CHAINS, FOR_ALL, archives

# CPU time counts, but a busy machine takes longer.
pytestmark = pytest.mark.timeout(600)

S_PER_KB = 0.06
ARCHIVES = archives()


def analyze_all(files: Mapping[str, bytes]) -> int:
    """Return the number of files in the graph."""
    sources = [SourceFile(name, partial(bytes, content)) for name, content in files.items()]
    graph = analyze(sources, {"call", "dependency", "parse"}, workers=1)
    return graph.stats.files


@pytest.mark.parametrize("name", ARCHIVES)
def test_cpu_time_is_bounded_by_the_size(name: str) -> None:
    files = ARCHIVES[name]
    seconds = BASE_S + S_PER_KB * sum(map(len, files.values())) / 1024
    assert within(seconds, analyze_all, files) <= len(files)


def test_slow_files_share_a_time_budget() -> None:
    files = {f"a{n}.go": FOR_ALL["open comments"].encode() for n in range(60)}
    seconds = BASE_S + S_PER_KB * sum(map(len, files.values())) / 1024
    within(seconds, analyze_all, files)


def test_every_language_has_hostile_samples() -> None:
    known = set(languages._GRAMMARS)
    assert set(languages._BY_ENDING.values()) == known
    assert {name.partition(":")[0] for name in ARCHIVES} == known
    assert set(CHAINS) == known
