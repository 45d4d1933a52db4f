"""Helpers that run the real command line: to its end, or in the background of a test."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from coatcheck.cli.demo.command import ANNOUNCEMENT

COMMAND = (sys.executable, "-m", "coatcheck")
# Nothing here takes this long; a test that waits longer has failed.
PATIENCE_S = 60.0


def environment(**settings: str) -> dict[str, str]:
    """Return this process's environment with only these Coatcheck settings."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("COATCHECK_") and name != "JOB_DB_PATH"
    }
    return {**kept, "COATCHECK_DRAIN_S": "1", "COATCHECK_GRACE_S": "1", **settings}


def run_to_end(*arguments: str, folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a given folder."""
    return subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


class Lines:
    """The lines that a process prints on one stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lines: list[str] = []
        self._passed = 0  # how many of them `next_with` is past
        self._ended = False
        self._arrived = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait_for(self, text: str) -> str:
        """Return the first line with a text in it, as soon as it is printed."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._ended or self._find(text) is not None, PATIENCE_S)
            found = self._find(text)
        assert found is not None, f"{text!r} was never printed, but: {self._lines}"
        return found

    def next_with(self, matches: Callable[[str], bool]) -> str:
        """Return the next line of which this is true, after the one returned here before."""
        with self._arrived:
            while True:
                while self._passed < len(self._lines):
                    self._passed += 1
                    if matches(self._lines[self._passed - 1]):
                        return self._lines[self._passed - 1]
                arrived = not self._ended and self._arrived.wait(PATIENCE_S)
                assert arrived, f"no such line came, but: {self._lines}"

    def until_end(self) -> list[str]:
        """Return every line, once the process has closed the stream."""
        self._thread.join(PATIENCE_S)
        assert self._ended, "the stream is still open"
        return self._lines

    def _find(self, text: str) -> str | None:
        return next((line for line in self._lines if text in line), None)

    def _read(self) -> None:
        with self._stream:
            for line in self._stream:
                with self._arrived:
                    self._lines.append(line.rstrip("\n"))
                    self._arrived.notify_all()
        with self._arrived:
            self._ended = True
            self._arrived.notify_all()


class Running:
    """A command that runs until it is stopped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.stdout = Lines(process.stdout)
        self.stderr = Lines(process.stderr)

    @property
    def pid(self) -> int:
        return self.process.pid

    def url(self) -> str:
        """Return the address the server answers on, once it does."""
        return self.stdout.wait_for(ANNOUNCEMENT).removeprefix(ANNOUNCEMENT).split()[0]

    def stop(self) -> int:
        """Ask the process to end, and return its exit code."""
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()


@contextmanager
def running(*arguments: str, folder: Path, **settings: str) -> Iterator[Running]:
    """Start a command in a given folder, and stop it on exit."""
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    command = Running(process)
    try:
        yield command
    finally:
        command.stop()
        command.stdout.until_end()
        command.stderr.until_end()


def poll_until(condition: Callable[[], bool], what: str) -> None:
    """Poll for a condition in another process that gives no signal."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError(f"it never happened: {what}")
