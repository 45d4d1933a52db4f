"""Buckets to test with: a folder, and S3 by moto on a local port."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from coatcheck.blobs.base import Bucket
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.open import bucket_for
from coatcheck.settings import Settings

BUCKET = "coatcheck-test"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket."""
    settings = {
        "AWS_ENDPOINT": s3_server,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=s3_server, region_name="us-east-1")
    client.create_bucket(Bucket=BUCKET)
    for found in client.list_objects_v2(Bucket=BUCKET).get("Contents", []):
        client.delete_object(Bucket=BUCKET, Key=found["Key"])
    client.close()
    return f"s3://{BUCKET}/some/folder"


@pytest.fixture(params=["file", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    if request.param == "file":
        return bucket_for(Settings(blobs=f"file://{tmp_path}/blobs"))
    return bucket_for(Settings(blobs=request.getfixturevalue("s3")))


@pytest.fixture
def blobs(bucket: Bucket) -> Iterator[Blobs]:
    blobs = Blobs(bucket)
    yield blobs
    blobs.close()
