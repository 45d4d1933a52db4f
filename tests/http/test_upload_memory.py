"""A server's memory stays as it is while large files come in: measured on a real process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

SIZE, PIECE = 160_000_000, 1_000_000
MOST_GROWN_KB = 64_000


def pieces() -> Iterator[bytes]:
    for number in range(SIZE // PIECE):
        yield bytes([number % 256]) * PIECE


def memory_kb(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_a_large_upload_does_not_grow_the_server(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("from coatcheck import App\napp = App()\n")
    command = [sys.executable, "-m", "coatcheck", "serve", "empty:app", "--port", "0"]
    environment = {**os.environ, "COATCHECK_DATABASE": f"sqlite:///{tmp_path}/jobs.db"}
    with subprocess.Popen(
        [*command, "--no-worker"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[3]
            httpx2.post(f"{url}/v1/uploads", content=b"x", timeout=60)
            before = memory_kb(server.pid, "VmRSS")
            answer = httpx2.post(f"{url}/v1/uploads", content=pieces(), timeout=100)
            assert answer.status_code == 201, answer.text
            digest = hashlib.sha256()
            for piece in pieces():
                digest.update(piece)
            assert answer.json()["sha256"] == digest.hexdigest()
            assert memory_kb(server.pid, "VmHWM") - before < MOST_GROWN_KB
        finally:
            server.terminate()
