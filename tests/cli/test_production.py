"""The production profile of a real server, as SECURITY.md describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.processes import run_to_end, running
from tests.hardening.conftest import APP

PAGES = ("/docs", "/docs/docs.js", "/docs/docs.css", "/openapi.json")
PRODUCTION = {"COATCHECK_PROFILE": "production"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_production_needs_a_key_even_on_loopback(tmp_path: Path, host: str) -> None:
    ended = run_to_end(
        *["serve", APP, "--host", host, "--port", "0"], folder=tmp_path, **PRODUCTION
    )
    assert ended.returncode == 78
    assert "coatcheck keys create --tenant default --scope admin" in ended.stderr


@pytest.fixture(params=["production", ""])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[httpx2.Client]:
    """A server with a key, in the production profile and without it."""
    profile = {"COATCHECK_PROFILE": request.param}
    made = run_to_end(*["keys", "create", "--scope", "admin", "--json"], folder=tmp_path, **profile)
    assert made.returncode == 0, made.stderr
    headers = {"X-Api-Key": json.loads(made.stdout)["key"]}
    with (
        running("serve", APP, "--port", "0", "--in-process", folder=tmp_path, **profile) as server,
        httpx2.Client(base_url=server.url(), headers=headers, timeout=60) as client,
    ):
        yield client


@pytest.mark.parametrize("served", ["production"], indirect=True)
def test_production_serves_no_documentation_pages(served: httpx2.Client) -> None:
    for path in PAGES:
        for method in ("GET", "HEAD"):
            assert served.request(method, path).status_code == 404, path
        assert httpx2.get(f"{served.base_url}{path}").status_code in (401, 404), path
    assert served.get("/v1/jobs").status_code == 200
    assert served.get("/healthz").status_code == 200


@pytest.mark.parametrize("served", [""], indirect=True)
def test_other_profiles_serve_documentation_pages(served: httpx2.Client) -> None:
    assert [served.get(path).status_code for path in PAGES] == [200] * len(PAGES)
