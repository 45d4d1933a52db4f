"""The OpenAPI document with this surface."""

from __future__ import annotations

import pytest
from openapi_spec_validator import validate

from tests.surfaces.foreman.conftest import Serve

pytestmark = pytest.mark.anyio


async def test_openapi_describes_the_endpoints(serve: Serve) -> None:
    async with serve("http://127.0.0.1:1", works=False) as foreman:
        described = (await foreman.http.get("/openapi.json")).json()
    validate(described)
    paths = described["paths"]
    assert {"/api/chat", "/api/tags", "/v1/chat/completions", "/v1/models", "/jobs"} <= set(paths)
    assert set(paths["/jobs"]) == {"post"}
    assert "/v1/models/{model}" in paths
