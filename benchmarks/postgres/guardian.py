"""A guardian process: no server outlives its benchmark, however that ends.

It is started next to the server and waits on its standard input, which is closed when the benchmark
exits, even by SIGKILL. It then stops the server of that folder, if it still runs, and removes the
folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE_S = 20.0


@contextlib.contextmanager
def guarded(folder: Path) -> Iterator[None]:
    """Remove a folder and stop its server when this process is gone."""
    guardian = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.postgres.guardian", str(folder)],
        stdin=subprocess.PIPE,
        cwd=Path(__file__).parent.parent.parent,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    try:
        yield
    finally:
        guardian.stdin.close()
        guardian.wait()


def main(folder: Path) -> None:
    """Wait, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.read()
    stop_server(folder / "data")
    shutil.rmtree(folder, ignore_errors=True)


def stop_server(data: Path) -> None:
    """Stop the server with this data folder, and no other."""
    try:
        pid = int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    deadline = time.monotonic() + PATIENCE_S
    number = signal.SIGINT  # fast shutdown: reject new connections, end existing ones
    while _is_server(pid, data):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        if time.monotonic() > deadline:
            number = signal.SIGQUIT
        time.sleep(0.1)


def _is_server(pid: int, data: Path) -> bool:
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(data) in arguments


if __name__ == "__main__":
    main(Path(sys.argv[1]))
