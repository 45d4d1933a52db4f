"""The description is true on PostgreSQL too."""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.store.postgres.store import PostgresStore
from tests.http.described import find_differences
from tests.http.interesting import interesting_app
from tests.http.live import live

pytestmark = pytest.mark.timeout(300)


def test_generated_requests_are_answered_as_described(
    dsn: str, schema: str, tmp_path: Path
) -> None:
    with live(lambda: PostgresStore(dsn, schema=schema, connections=6), interesting_app()) as url:
        options = ("--phases", "fuzzing,stateful", "--max-examples", "6")
        assert find_differences(url, tmp_path, *options) == ""
