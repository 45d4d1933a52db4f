"""G24 on S3: a failed part of a stream is sent again, and the stream is read once."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Iterator

import boto3
import pytest

from coatcheck.blobs.base import BlobRetryPolicy, Bucket
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.encrypted import EncryptedBucket
from coatcheck.blobs.objects import PART_BYTES, ObjectBucket
from coatcheck.crypto.encryption import Keyring
from coatcheck.errors import BlobGone, BlobStoreUnavailable

from .conftest import BUCKET
from .contents import KEY, PLENTY, content_of, digest_of, stream_of
from .faulty_proxy import Faulty, faulty_proxy

pytestmark = pytest.mark.anyio

CONTENT = content_of(2 * PART_BYTES + 5)
QUICK = BlobRetryPolicy(first_pause_s=0.05, longest_pause_s=0.1)


@pytest.fixture
def proxy(s3_server: str, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faulty]:
    with faulty_proxy(s3_server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT", proxy.address)
        yield proxy


@pytest.fixture(params=["plain", "sealed"])
def blobs(request: pytest.FixtureRequest, s3: str, proxy: Faulty) -> Iterator[Blobs]:
    bucket: Bucket = ObjectBucket(s3, QUICK)
    if request.param == "sealed":
        key = base64.b64encode(bytes(32)).decode()
        bucket = EncryptedBucket(bucket, Keyring.read(f"a={key}"))
    blobs = Blobs(bucket)
    yield blobs
    blobs.close()


def unfinished(s3_server: str) -> list[object]:
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    try:
        return list(client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))
    finally:
        client.close()


@pytest.mark.parametrize("fault", ["503", "500", "cut"])
async def test_a_failed_part_is_retried_twice(  # G24
    blobs: Blobs, proxy: Faulty, fault: str
) -> None:
    proxy.faults = {"PUT part 2": [fault, fault], "PUT part 3": [fault]}
    pieces = 0

    async def arriving() -> AsyncIterator[bytes]:
        nonlocal pieces
        async for piece in stream_of(CONTENT):
            pieces += 1
            yield piece

    put = await blobs.put(KEY, arriving(), PLENTY)

    assert put == digest_of(CONTENT)
    assert await blobs.get(KEY, put.size, put.sha256) == CONTENT
    assert pieces == -(-len(CONTENT) // 100_000), "nobody was asked for anything twice"
    sent = {number: proxy.asked[f"PUT part {number}"] for number in (1, 2, 3)}
    assert sent == {1: 1, 2: 3, 3: 2}, "what was sent stays sent"


@pytest.mark.parametrize("fault", ["503", "cut"])
async def test_starting_and_completing_an_upload_are_retried(
    blobs: Blobs, proxy: Faulty, fault: str
) -> None:
    proxy.faults = {"POST": [fault, fault]}
    put = await blobs.put(KEY, stream_of(CONTENT), PLENTY)
    assert await blobs.get(KEY, put.size, put.sha256) == CONTENT
    assert proxy.asked["POST"] == 4  # the start three times, the end once


async def test_a_failed_upload_leaves_nothing_after_three_attempts(
    blobs: Blobs, proxy: Faulty, s3_server: str
) -> None:
    proxy.faults = {"PUT part 2": ["503"] * 3}
    with pytest.raises(BlobStoreUnavailable):
        await blobs.put(KEY, stream_of(CONTENT), PLENTY)
    assert proxy.asked["PUT part 2"] == 3
    with pytest.raises(BlobGone):
        await blobs.stream(KEY, 0, 1)
    assert unfinished(s3_server) == []


@pytest.mark.parametrize("fault", ["404", "403"])
async def test_missing_or_denied_objects_are_not_retried(  # G24
    blobs: Blobs, proxy: Faulty, fault: str
) -> None:
    proxy.faults = {"PUT part 1": [fault] * 3}
    with pytest.raises((BlobGone, BlobStoreUnavailable)):
        await blobs.put(KEY, stream_of(CONTENT), PLENTY)
    assert proxy.asked["PUT part 1"] == 1


async def test_retries_are_not_nested(s3: str, proxy: Faulty) -> None:
    async def sleep(seconds: float) -> None:
        pass

    blobs = Blobs(ObjectBucket(s3, QUICK), sleep=sleep)
    proxy.faults = {"POST": ["503"] * 9}
    with pytest.raises(BlobStoreUnavailable):
        await blobs.put(KEY, CONTENT, PLENTY)
    assert proxy.asked["POST"] == 3
    blobs.close()


async def test_retries_are_delayed(s3: str, proxy: Faulty) -> None:  # G24
    assert BlobRetryPolicy() == (3, 1.0, 10.0)
    blobs = Blobs(ObjectBucket(s3, BlobRetryPolicy(first_pause_s=0.5, longest_pause_s=1.0)))
    proxy.faults = {"PUT part 1": ["503"]}
    began = time.monotonic()
    await blobs.put(KEY, stream_of(CONTENT), PLENTY)
    assert time.monotonic() - began >= 0.5
    blobs.close()
