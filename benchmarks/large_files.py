"""Large artifacts: memory of the server's processes while one is written and downloaded.

    python -m benchmarks.large_files [megabytes]

A job writes an artifact, and a client downloads it. For each process: its memory before and its
peak. For comparison, the speed of writing and syncing the same file directly.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.serving import serving
from coatcheck import Client


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "source", Path(folder) / "target"
        piece = os.urandom(1_000_000)
        with source.open("wb") as file:
            for _ in range(megabytes):
                file.write(piece)
        direct = _copy(source, target)
        with serving(Path(folder)) as server, Client(f"http://127.0.0.1:{server.port}") as client:
            client.run("leave_file", str(source), 60)  # all modules are imported by now
            before = {pid: _memory(pid, "VmRSS") for pid in server.processes()}
            start = time.monotonic()
            handle = client.submit("leave_file", str(source))
            handle.result(60)
            kept = time.monotonic() - start
            start = time.monotonic()
            handle.download("file", target)
            fetched = time.monotonic() - start
            print(f"{megabytes} MB: copied and synced directly {megabytes / direct:.0f} MB/s,")
            print(f"  kept by a job {megabytes / kept:.0f} MB/s, ", end="")
            print(f"downloaded and checked {megabytes / fetched:.0f} MB/s")
            for pid, role in server.processes().items():
                most = _memory(pid, "VmHWM")
                print(f"  {role}: {before[pid]:.0f} MB before, {most:.0f} MB at most")


def _copy(source: Path, target: Path) -> float:
    start = time.monotonic()
    with source.open("rb") as from_, target.open("wb") as to:
        while piece := from_.read(1 << 20):
            to.write(piece)
        os.fsync(to.fileno())
    return time.monotonic() - start


def _memory(pid: int, what: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1000
    raise LookupError(what)


if __name__ == "__main__":
    main()
