"""The OpenAPI description of the surface is accurate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.processes import running
from tests.http.described import find_differences

pytestmark = pytest.mark.timeout(300)

OURS = "^/v1/(ingest|collections|documents)"


def test_generated_requests_match_the_description(tmp_path: Path) -> None:
    with running("serve", "--port", "0", "--no-worker", folder=tmp_path) as server:
        options = ("--phases", "coverage,fuzzing", "--max-examples", "10")
        assert (
            find_differences(server.url(), tmp_path, "--include-path-regex", OURS, *options) == ""
        )
