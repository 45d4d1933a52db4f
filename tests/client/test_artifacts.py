"""Artifacts of jobs through both clients."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx2
import pytest

from coatcheck import Client
from coatcheck.errors import NotFound, UnexpectedAnswer
from tests.client.script import Play

CONTENT = bytes(range(256)) * 8000


def test_artifact_is_listed_read_and_downloaded(client: Client, tmp_path: Path) -> None:
    handle = client.submit("leave_file", len(CONTENT))
    handle.result(60)

    [listed] = handle.artifacts()
    assert (listed["name"], listed["size"]) == ("data.bin", len(CONTENT))
    assert handle.artifact("data.bin") == CONTENT
    handle.download("data.bin", tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert (tmp_path / "copy").read_bytes() == CONTENT


def test_missing_artifact_leaves_no_file(client: Client, tmp_path: Path) -> None:
    handle = client.submit("leave_file", 256)
    handle.result(60)
    with pytest.raises(NotFound):
        handle.download("other", tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_large_result_is_returned(client: Client, size: int) -> None:
    assert client.run("long_text", size, 60) == "x" * size


class Cutting(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body that breaks off."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self):  # type: ignore[no-untyped-def]
        yield self._content
        raise httpx2.ReadError("cut")

    async def __aiter__(self):  # type: ignore[no-untyped-def]
        yield self._content
        raise httpx2.ReadError("cut")


def whole(content: bytes) -> dict[str, str]:
    tag = f'"{hashlib.sha256(content).hexdigest()}"'
    return {"etag": tag, "content-length": str(len(content))}


def test_interrupted_download_resumes(play: Play) -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append((request.headers.get("range"), request.headers.get("if-range")))
        if len(asked) == 1:
            return httpx2.Response(200, headers=whole(b"0123456789"), stream=Cutting(b"0123"))
        headers = {**whole(b"0123456789"), "content-length": "6", "content-range": "bytes 4-9/10"}
        return httpx2.Response(206, headers=headers, content=b"456789")

    assert play(answer).artifact("job", "file") == b"0123456789"
    assert asked == [(None, None), ("bytes=4-", whole(b"0123456789")["etag"])]


def test_changed_file_is_downloaded_from_the_start(play: Play) -> None:
    asked = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        asked.append(request)
        if len(asked) == 1:
            return httpx2.Response(200, headers=whole(b"0123456789"), stream=Cutting(b"0123"))
        return httpx2.Response(200, headers=whole(b"another"), content=b"another")

    assert play(answer).artifact("job", "file") == b"another"


def test_wrong_bytes_are_rejected(play: Play) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=whole(b"these"), content=b"those")

    with pytest.raises(UnexpectedAnswer, match="SHA-256"):
        play(answer).artifact("job", "file")
