"""What the API says of itself with this surface in use."""

from __future__ import annotations

import pytest
from openapi_spec_validator import validate

from tests.surfaces.foreman.conftest import Serve

pytestmark = pytest.mark.anyio


async def test_its_calls_are_described(serve: Serve) -> None:
    async with serve("http://127.0.0.1:1", works=False) as foreman:
        described = (await foreman.http.get("/openapi.json")).json()
    validate(described)
    paths = described["paths"]
    assert {"/api/chat", "/api/tags", "/v1/chat/completions", "/v1/models", "/jobs"} <= set(paths)
    assert set(paths["/jobs"]) == {"post"}
    assert "/v1/models/{model}" in paths
