"""No archive takes the analysis more CPU time than its size allows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from coatcheck.codegraph import SourceFile, analyse, languages
from coatcheck.surfaces.graphs.domains import domains_of
from tests.surfaces.metered import BASE_S, within

from .hostile import CHAINS, FOR_ALL, archives

# The processor may be busy with other things; what counts is the time it spends on this.
pytestmark = pytest.mark.timeout(600)

S_A_KB = 0.06
ARCHIVES = archives()


def analyse_all(files: Mapping[str, bytes]) -> int:
    """Return how many files are in the graph."""
    sources = [SourceFile(name, partial(bytes, content)) for name, content in files.items()]
    graph = analyse(sources, {"call", "dependency", "parse"}, workers=1)
    domains_of(graph)
    return graph.stats.files


@pytest.mark.parametrize("name", ARCHIVES)
def test_cpu_time_is_bounded_by_the_size(name: str) -> None:
    files = ARCHIVES[name]
    seconds = BASE_S + S_A_KB * sum(map(len, files.values())) / 1024
    assert within(seconds, analyse_all, files) <= len(files)


def test_many_slow_files_share_their_time() -> None:
    files = {f"a{n}.go": FOR_ALL["open comments"].encode() for n in range(60)}
    seconds = BASE_S + S_A_KB * sum(map(len, files.values())) / 1024
    within(seconds, analyse_all, files)


def test_every_language_has_hostile_samples() -> None:
    known = set(languages._GRAMMARS)
    assert set(languages._BY_ENDING.values()) == known
    assert {name.partition(":")[0] for name in ARCHIVES} == known
    assert set(CHAINS) == known
