"""The CPU time of grouping a hostile codebase into domains is bounded by its size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from coatcheck.codegraph import SourceFile, analyze
from coatcheck.surfaces.graphs.domains import domains_of
from tests.codegraph.cpu_limit import BASE_S, within
from tests.codegraph.hostile import archives

# CPU time counts, but a busy machine takes longer.
pytestmark = pytest.mark.timeout(600)

S_PER_KB = 0.06
ARCHIVES = archives()


def group(files: Mapping[str, bytes]) -> int:
    """Return the number of files that the domains cover."""
    sources = [SourceFile(name, partial(bytes, content)) for name, content in files.items()]
    graph = analyze(sources, {"dependency"}, workers=1)
    return sum(len(domain.modules) for domain in domains_of(graph))


@pytest.mark.parametrize("name", ARCHIVES)
def test_cpu_time_is_bounded_by_the_size(name: str) -> None:
    files = ARCHIVES[name]
    seconds = BASE_S + S_PER_KB * sum(map(len, files.values())) / 1024
    assert within(seconds, group, files) <= len(files)
