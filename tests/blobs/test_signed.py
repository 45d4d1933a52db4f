"""Uploads that a client writes to the blob store itself, at a signed URL."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from coatcheck import App, Context, Upload
from coatcheck.blobs.base import BlobDigest
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.objects import ObjectBucket
from coatcheck.blobs.open import bucket_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.payloads import RESERVED_MS
from coatcheck.engine.payloads.signed_uploads import COMPLETED_WITHIN_MS
from coatcheck.errors import NotFound
from coatcheck.http.app import create_http_app
from coatcheck.model.payload import BlobName
from coatcheck.model.upload import UNUSED_UPLOAD_TTL_MS
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from tests.blobs.conftest import BUCKET
from tests.docs.pages import ROOT, write_python_files
from tests.docs.test_examples import serving
from tests.http.arrange import StoppedClock, connect
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

CONTENT = b"straight to the bucket"
SHA = hashlib.sha256(CONTENT).hexdigest()
ASKED = {"size": len(CONTENT), "name": "a.txt"}
OTHER = CONTENT.upper()

Objects = Callable[[], list[str]]


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
async def engine(tmp_path: Path, s3: str, clock: StoppedClock) -> AsyncIterator[Engine]:
    app = App()

    @app.job
    def measure(ctx: Context, file: Upload) -> int:
        return int(ctx.file(file).stat().st_size)

    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    blobs = Blobs(bucket_for(Settings(blobs=s3)))
    yield Engine(store, app.kinds, clock, blobs=blobs)
    blobs.close()
    await store.close()


@pytest.fixture
async def http(engine: Engine) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(create_http_app(engine)) as client:
        yield client


@pytest.fixture
def objects(s3_server: str, s3: str) -> Objects:
    """List the objects in the bucket."""

    def listed() -> list[str]:
        client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
        found = client.list_objects_v2(Bucket=BUCKET).get("Contents", [])
        client.close()
        return [each["Key"] for each in found]

    return listed


async def begin(http: httpx2.AsyncClient, **asked: Any) -> dict[str, Any]:
    answer = await http.post("/v1/signed-uploads", json=ASKED | asked)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def write(signed: dict[str, Any], content: bytes = CONTENT) -> None:
    async with httpx2.AsyncClient() as bucket:
        answer = await bucket.request(
            signed["method"], signed["url"], headers=signed["headers"], content=content
        )
    assert answer.status_code == 200, answer.text


async def complete(http: httpx2.AsyncClient, signed: dict[str, Any]) -> httpx2.Response:
    return await http.post(signed["links"]["complete"])


async def submit(http: httpx2.AsyncClient, signed: dict[str, Any]) -> httpx2.Response:
    return await http.post("/v1/jobs", json={"kind": "measure", "input": {"upload": signed["id"]}})


async def test_a_file_written_to_a_signed_url_becomes_an_upload(http: httpx2.AsyncClient) -> None:
    signed = await begin(http, sha256=SHA)
    read_problem(await complete(http, signed), 409, "conflict")

    await write(signed)
    completed = await complete(http, signed)
    assert completed.status_code == 200, completed.text
    assert completed.json()["sha256"] == SHA
    assert (await complete(http, signed)).json() == completed.json()
    assert completed.json()["content_type"] == "text/plain"
    assert (await http.get(f"/v1/uploads/{signed['id']}")).json() == completed.json()
    assert (await submit(http, signed)).status_code == 202
    read_problem(await complete(http, signed), 404, "not-found")


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT + b"!"])
async def test_a_wrong_size_is_rejected_and_removed(
    http: httpx2.AsyncClient, objects: Objects, content: bytes
) -> None:
    signed = await begin(http)
    await write(signed, content)
    refused = read_problem(await complete(http, signed), 422, "invalid-payload")
    assert refused["errors"][0]["pointer"] == "/size"
    assert objects() == []
    read_problem(await complete(http, signed), 409, "conflict")


async def test_a_wrong_hash_is_rejected_and_can_be_rewritten(
    http: httpx2.AsyncClient, objects: Objects
) -> None:
    signed = await begin(http, sha256=SHA)
    await write(signed, OTHER)
    refused = read_problem(await complete(http, signed), 422, "invalid-payload")
    assert refused["errors"][0]["pointer"] == "/sha256"
    assert objects() == []

    await write(signed)
    assert (await complete(http, signed)).json()["sha256"] == SHA


async def test_a_job_cannot_use_an_incomplete_upload(http: httpx2.AsyncClient) -> None:
    signed = await begin(http)
    await write(signed)
    refused = read_problem(await submit(http, signed), 422, "invalid-payload")
    assert "not complete" in refused["detail"]
    shown = read_problem(await http.get(f"/v1/uploads/{signed['id']}"), 404, "not-found")
    assert "not complete" in shown["detail"]


async def test_a_completed_upload_cannot_be_changed(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock, objects: Objects
) -> None:
    signed = await begin(http)
    await write(signed)
    await complete(http, signed)
    assert len(objects()) == 1, "only what is kept is there"
    await write(signed, OTHER)

    kept = await engine.uploads.get(signed["id"])
    assert b"".join([piece async for piece in await engine.payload_store.stream(kept)]) == CONTENT
    assert (await http.delete(f"/v1/uploads/{signed['id']}")).status_code == 204
    assert len(objects()) == 1, "what was written late"
    clock.milliseconds += RESERVED_MS
    await engine.payload_store.sweep()
    assert objects() == []


async def test_incomplete_uploads_are_swept(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock, objects: Objects
) -> None:
    signed = await begin(http)
    await write(signed)
    clock.milliseconds += COMPLETED_WITHIN_MS
    read_problem(await complete(http, signed), 404, "not-found")
    await engine.payload_store.sweep()
    assert len(objects()) == 1, "the address may still be good"
    clock.milliseconds += RESERVED_MS - COMPLETED_WITHIN_MS
    await engine.payload_store.sweep()
    assert objects() == []


async def test_concurrent_completions_make_one_upload(
    http: httpx2.AsyncClient, engine: Engine, clock: StoppedClock, objects: Objects
) -> None:
    signed = await begin(http)
    await write(signed)
    both = await asyncio.gather(complete(http, signed), complete(http, signed))
    assert [answer.status_code for answer in both] == [200, 200]
    assert both[0].json() == both[1].json()
    assert (await submit(http, signed)).status_code == 202
    read_problem(await submit(http, signed), 422, "invalid-payload")
    clock.milliseconds += UNUSED_UPLOAD_TTL_MS
    await engine.payload_store.sweep()
    assert len(objects()) == 1, "what the job has"


@pytest.mark.parametrize("faster", ["before", "after"])
async def test_a_second_completion_returns_the_first(
    http: httpx2.AsyncClient,
    engine: Engine,
    objects: Objects,
    monkeypatch: pytest.MonkeyPatch,
    faster: str,
) -> None:
    signed = await begin(http)
    await write(signed)
    copy_unowned = engine.payload_store.copy_unowned

    async def overtaken(key: str, blob: BlobName, most: int) -> BlobDigest:
        monkeypatch.setattr(engine.payload_store, "copy_unowned", copy_unowned)
        if faster == "before":
            await complete(http, signed)
            return await copy_unowned(key, blob, most)
        digest_of = await copy_unowned(key, blob, most)
        await complete(http, signed)
        return digest_of

    monkeypatch.setattr(engine.payload_store, "copy_unowned", overtaken)
    second = await complete(http, signed)
    assert second.status_code == 200, second.text
    assert second.json() == (await http.get(f"/v1/uploads/{signed['id']}")).json()
    assert len(objects()) == 1


async def test_an_incomplete_upload_can_be_deleted(
    http: httpx2.AsyncClient, objects: Objects
) -> None:
    signed = await begin(http)
    await write(signed)
    assert (await http.delete(f"/v1/uploads/{signed['id']}")).status_code == 204
    assert objects() == []
    read_problem(await complete(http, signed), 404, "not-found")
    read_problem(await http.delete(f"/v1/uploads/{signed['id']}"), 404, "not-found")


async def test_another_tenant_can_neither_complete_nor_delete_it(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    signed = await begin(http)
    await write(signed)
    with pytest.raises(NotFound):
        await engine.uploads.signed.complete(signed["id"], "other")
    with pytest.raises(NotFound):
        await engine.uploads.delete(signed["id"], "other")
    assert (await complete(http, signed)).status_code == 200


async def test_an_unknown_upload_cannot_be_completed(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/uploads/01M7GDTNAQ55VVM48585MMPRGK/complete")
    read_problem(answer, 404, "not-found")


@pytest.mark.parametrize(
    "wrong", [{"size": -1}, {"size": 500 * 1024 * 1024 + 1}, {"sha256": "A" * 64}, {"more": 1}]
)
async def test_an_invalid_request_gets_no_signed_url(
    http: httpx2.AsyncClient, wrong: dict[str, Any]
) -> None:
    refused = await http.post("/v1/signed-uploads", json=ASKED | wrong)
    problem = read_problem(refused, 422, "invalid-payload")
    assert problem["errors"][0]["pointer"] == f"/{next(iter(wrong))}"


async def test_an_encrypted_store_has_no_signed_urls(tmp_path: Path, s3: str) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    keys = f"a={base64.b64encode(bytes(32)).decode()}"
    blobs = Blobs(bucket_for(Settings(blobs=s3, encryption_keys=keys)))
    async with connect(create_http_app(Engine(store, {}, blobs=blobs))) as http:
        answer = await http.post("/v1/signed-uploads", json=ASKED)
    read_problem(answer, 409, "no-signed-uploads")
    assert await store.files.start_blob_removal(1 << 60, 1) == []
    blobs.close()
    await store.close()


def test_azure_supports_signed_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", base64.b64encode(b"secret").decode())
    url, headers = ObjectBucket("az://container/folder").sign("signed/a", 60)
    parts = urlsplit(url)
    assert parts.hostname == "account.blob.core.windows.net"
    assert parts.path == "/container/folder/signed/a"
    assert parse_qs(parts.query)["sp"] == ["w"], "to write, and nothing else"
    assert headers == {"x-ms-blob-type": "BlockBlob"}


def test_google_supports_signed_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    private = rsa.generate_private_key(65537, 2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {"client_email": "a@example.com", "private_key": pem, "private_key_id": "1"}
    key = json.dumps(account | {"type": "service_account"})
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", key)
    url, headers = ObjectBucket("gs://bucket/folder").sign("signed/a", 60)
    parts = urlsplit(url)
    assert parts.path == "/bucket/folder/signed/a"
    assert parse_qs(parts.query)["X-Goog-Expires"] == ["60"]
    assert headers == {}


def test_the_example_of_the_documentation(tmp_path: Path, s3: str) -> None:
    page = ROOT / "docs/how-to/uploads.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "scans:app", COATCHECK_BLOBS=s3) as url:
        write_python_files(page, tmp_path, url)
        message = [
            subprocess.run(
                [sys.executable, name], cwd=tmp_path, capture_output=True, text=True, check=True
            ).stdout
            for name in ("hand_in.py", "hand_in_directly.py")
        ]
    assert message == ["1\n", "1\n"]
