"""`GET /docs` in a real browser, where there is one: every call is shown, nothing goes wrong."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.interesting import interesting_app
from tests.http.live import live

BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
TIMEOUT_S = 60

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on this machine")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with live(lambda: SQLiteStore(tmp_path / "jobs.db"), interesting_app()) as url:
        yield url


def visit(page: str, profile: Path) -> subprocess.CompletedProcess[str]:
    """Open a page and let its scripts run; what it became is printed, its console is in stderr."""
    assert BROWSER is not None
    return subprocess.run(
        [
            BROWSER,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            f"--user-data-dir={profile}",
            "--enable-logging=stderr",
            "--virtual-time-budget=10000",
            "--dump-dom",
            page,
        ],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )


def test_every_call_is_shown_and_nothing_is_wrong(url: str, tmp_path: Path) -> None:
    described = httpx2.get(f"{url}/openapi.json").json()
    calls = {call["operationId"] for path in described["paths"].values() for call in path.values()}

    seen = visit(f"{url}/docs", tmp_path / "profile")

    assert calls
    for call in calls:
        assert f'<details id="{call}">' in seen.stdout
    assert "Loading the description" not in seen.stdout
    assert "CONSOLE" not in seen.stderr


def test_a_link_to_a_call_opens_it(url: str, tmp_path: Path) -> None:
    seen = visit(f"{url}/docs#submitJob", tmp_path / "profile")

    assert '<details id="submitJob" open="">' in seen.stdout
    assert seen.stdout.count('open=""') == 1
