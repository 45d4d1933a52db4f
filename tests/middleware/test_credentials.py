"""Credentials are never stored in clear, whatever header they come in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from coatcheck import Coatcheck
from coatcheck.relay.headers import is_credential

from .asgi_client import open_client

SECRETS = {
    "Authorization": "Bearer s3cret-1",
    "Cookie": "sessionid=s3cret-2; csrftoken=s3cret-3",
    "X-Api-Key": "s3cret-4",
    "X-CSRFToken": "s3cret-5",
    "X-Shop-Token": "s3cret-6",
    "X-Goog-Authenticated-User-Email": "s3cret-7",
    "Api-Key": "s3cret-8",
}


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_credential_names(name: str) -> None:
    assert is_credential(name.lower())


@pytest.mark.parametrize(
    "name",
    ["host", "content-type", "accept", "x-request-id", "x-forwarded-for", "idempotency-key", "dnt"],
)
def test_names_that_are_not_credentials(name: str) -> None:
    assert not is_credential(name)


def content_of(folder: Path) -> list[bytes]:
    return [each.read_bytes() for each in folder.rglob("*") if each.is_file()]


@pytest.mark.anyio
async def test_app_gets_credentials_and_the_disk_does_not(tmp_path: Path) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise ValueError
        found = b"\n".join(value for _, value in scope["headers"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": found})

    database = f"sqlite:///{tmp_path}/jobs.db"
    wrapped = Coatcheck(app, ["POST /render"], database=database, wait="30s", authorize="none")
    async with open_client(wrapped) as client:
        answer = await client.post("/render", headers=SECRETS)
        assert answer.text.count("s3cret-") == 8
        kept = content_of(tmp_path)
        assert kept
        assert not any(b"s3cret" in each for each in kept)
