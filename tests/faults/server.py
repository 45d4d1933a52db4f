"""A real `coatcheck serve`, whose processes can be found and killed."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coatcheck import Client

LEASE_S = 1.0
SWEEP_S = 0.2
PATIENCE_S = 60.0
COMMAND = (sys.executable, "-m", "coatcheck", "serve", "tests.faults.app:app", "--port", "0")


class Server:
    """`coatcheck serve tests.faults.app:app` on a database in a folder of the test's own."""

    def __init__(self, folder: Path, *arguments: str, **settings: str) -> None:
        self.folder = folder
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._seen: list[dict[str, Any]] = []
        environment = {
            **os.environ,
            "FAULT_FOLDER": str(folder),
            "COATCHECK_DATABASE": f"sqlite:///{folder}/jobs.db",
            "COATCHECK_LEASE_S": str(LEASE_S),
            "COATCHECK_SWEEP_S": str(SWEEP_S),
            "COATCHECK_DRAIN_S": "5",
            "COATCHECK_LOG_FORMAT": "json",
            **{f"COATCHECK_{name.upper()}": value for name, value in settings.items()},
        }
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [threading.Thread(target=self._read_log, args=(self.process.stderr,))]
        self._readers[0].start()
        first = self.process.stdout.readline()
        assert first.startswith("Coatcheck listens on "), first
        self.url = first.split()[3]
        self.client = Client(self.url)
        self._readers.append(threading.Thread(target=self.process.stdout.read))
        self._readers[1].start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.client.close()
        if self.process.poll() is None:
            self.process.kill()
        for reader in self._readers:
            reader.join()
        # Closes the pipes too, which the children had inherited.
        self.process.__exit__(None, None, None)

    def _read_log(self, stream: Any) -> None:
        for line in stream:
            try:
                self._lines.put(json.loads(line))
            except ValueError:
                self._lines.put({"message": line})
        self._lines.put(None)

    def wait_for_log(self, message: str, **fields: object) -> dict[str, Any]:
        """Return the next log line with this message and these fields."""
        until = time.monotonic() + PATIENCE_S
        while True:
            line = self._lines.get(timeout=max(0.1, until - time.monotonic()))
            assert line is not None, f"the log ended before {message!r} {fields}: {self._seen}"
            self._seen.append(line)
            if line["message"] == message and fields.items() <= line.items():
                return line

    def child(self, name: str) -> int:
        """Return the pid of a child that was just (re)started."""
        return int(self.wait_for_log("started", child=name)["child_pid"])

    def open_gate(self) -> None:
        """Let the held jobs go on."""
        (self.folder / "gate").touch()

    def starts(self) -> list[tuple[str, int]]:
        """Return (job id, attempt) of every start of a handler so far."""
        path = self.folder / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(line.split()[0], int(line.split()[1])) for line in lines]

    def terminate(self) -> int:
        """Stop it the polite way and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


def wait_until_gone(*pids: int) -> None:
    """Wait until processes are gone; nothing signals the end of somebody else's child."""
    until = time.monotonic() + PATIENCE_S
    while any(_is_running(pid) for pid in pids):
        assert time.monotonic() < until, f"still there: {pids}"
        time.sleep(0.005)


def _is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")
