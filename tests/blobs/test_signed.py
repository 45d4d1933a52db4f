"""Uploads that a client writes to the blob store itself, at an address that was signed."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from coatcheck import App
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.open import bucket_for
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import connect
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio
CONTENT = b"straight to the bucket"


@pytest.fixture
async def http(tmp_path: Path, s3: str) -> AsyncIterator[httpx2.AsyncClient]:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    blobs = Blobs(bucket_for(Settings(blobs=s3)))
    async with connect(create_http_app(Engine(store, App().kinds, blobs=blobs))) as client:
        yield client
    blobs.close()
    await store.close()


async def test_a_file_written_to_its_address_is_an_upload(http: httpx2.AsyncClient) -> None:
    asked = {"size": len(CONTENT), "name": "a.txt"}
    signed = (await http.post("/v1/signed-uploads", json=asked)).json()
    read_problem(await http.post(signed["links"]["complete"]), 409, "conflict")

    async with httpx2.AsyncClient() as bucket:
        assert (await bucket.put(signed["url"], content=CONTENT)).status_code == 200
    completed = await http.post(signed["links"]["complete"])
    assert completed.status_code == 200, completed.text
    assert completed.json()["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert (await http.post(signed["links"]["complete"])).json() == completed.json()
    assert completed.json()["content_type"] == "text/plain"
    assert (await http.get(f"/v1/uploads/{signed['id']}")).json() == completed.json()


async def test_another_size_than_was_said_is_refused(http: httpx2.AsyncClient) -> None:
    signed = (await http.post("/v1/signed-uploads", json={"size": 1})).json()
    async with httpx2.AsyncClient() as bucket:
        await bucket.put(signed["url"], content=CONTENT)
    read_problem(await http.post(signed["links"]["complete"]), 409, "conflict")


async def test_an_address_nobody_asked_for_cannot_be_completed(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/uploads/01M7GDTNAQ55VVM48585MMPRGK/complete")
    read_problem(answer, 404, "not-found")
