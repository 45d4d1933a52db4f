"""Uploads: memory of the server while a large file arrives, and the speed.

    python -m benchmarks.uploads [megabytes]

A client uploads a file, raw and as a form. For the API process: its memory before and its peak.
For comparison, the speed of copying, hashing and syncing the same file directly.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from benchmarks.large_files import _memory
from benchmarks.serving import serving

PIECE = 1 << 20


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        piece = os.urandom(1_000_000)
        with source.open("wb") as file:
            for _ in range(megabytes):
                file.write(piece)
        direct = _copy(source, target)
        target.unlink()
        with serving(Path(folder)) as server:
            url = f"http://127.0.0.1:{server.port}/v1/uploads"
            _send(url, iter([b"x"]), 1)  # all modules are imported by now
            before = {pid: _memory(pid, "VmRSS") for pid in server.processes()}
            start = time.monotonic()
            upload = _send(url, _pieces(source), source.stat().st_size)
            raw = time.monotonic() - start
            httpx2.delete(f"{url}/{upload}", timeout=60)
            form = _form(source)
            start = time.monotonic()
            _send(url, form.pieces(), form.size, form.content_type)
            as_form = time.monotonic() - start
            print(
                f"{megabytes} MB: copied, hashed and synced directly {megabytes / direct:.0f} MB/s"
            )
            print(f"  uploaded as it is {megabytes / raw:.0f} MB/s, ", end="")
            print(f"as a form {megabytes / as_form:.0f} MB/s")
            for pid, role in server.processes().items():
                most = _memory(pid, "VmHWM")
                print(f"  {role}: {before[pid]:.0f} MB before, {most:.0f} MB at most")


class _form:  # noqa: N801 - reads as what it makes
    content_type = "multipart/form-data; boundary=between"

    def __init__(self, path: Path) -> None:
        self._path = path
        head = 'Content-Disposition: form-data; name="file"; filename="source"'
        self._head = f"--between\r\n{head}\r\n\r\n".encode()
        self._tail = b"\r\n--between--\r\n"
        self.size = len(self._head) + path.stat().st_size + len(self._tail)

    def pieces(self) -> Iterator[bytes]:
        yield self._head
        yield from _pieces(self._path)
        yield self._tail


def _send(url: str, pieces: Iterator[bytes], size: int, content_type: str = "x/y") -> str:
    headers = {"Content-Length": str(size), "Content-Type": content_type}
    answer = httpx2.post(url, content=pieces, headers=headers, timeout=110)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _copy(source: Path, target: Path) -> float:
    start = time.monotonic()
    digest = hashlib.sha256()
    with target.open("wb") as to:
        for piece in _pieces(source):
            digest.update(piece)
            to.write(piece)
        to.flush()
        os.fsync(to.fileno())
    return time.monotonic() - start


if __name__ == "__main__":
    main()
