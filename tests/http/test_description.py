"""The description is true: what the live server answers is what /openapi.json says it may."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.described import find_differences
from tests.http.interesting import interesting_app
from tests.http.live import live

# Some thousand requests: a minute, or several on a busy machine.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with live(lambda: SQLiteStore(tmp_path / "jobs.db"), interesting_app()) as url:
        yield url


def test_generated_requests_are_answered_as_described(url: str, tmp_path: Path) -> None:
    options = ("--phases", "fuzzing,stateful", "--max-examples", "6")
    assert find_differences(url, tmp_path, *options) == ""


def test_requests_at_the_edges_of_their_parameters_are_answered_as_described(
    url: str, tmp_path: Path
) -> None:
    # Bodies are left out: their edges are thousands, among them a batch of 10,001 jobs.
    options = ("--phases", "coverage", "--exclude-method", "POST")
    assert find_differences(url, tmp_path, *options) == ""
