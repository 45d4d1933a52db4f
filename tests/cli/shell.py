"""A shell: commands that run to their end, and commands on a terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.processes import COMMAND, PATIENCE_S, environment

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def write_files(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files into a folder, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


class Shell:
    """Runs commands against one server."""

    def __init__(self, url: str, folder: Path, patience_s: float = PATIENCE_S) -> None:
        self.url = url
        self.folder = folder
        self._patience_s = patience_s

    def run(
        self, *arguments: str, given: str | None = None, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, with its output piped."""
        return subprocess.run(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=environment(**{"COATCHECK_URL": self.url, **settings}),
            input=given,
            capture_output=True,
            text=True,
            timeout=self._patience_s,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        """Run a command that succeeds and says nothing but JSON."""
        ended = self.run(*arguments, "--json")
        assert (ended.returncode, ended.stderr) == (0, "")
        return json.loads(ended.stdout)

    @contextmanager
    def on_terminal(self, *arguments: str, columns: int = 100, **settings: str) -> Iterator[Screen]:
        """Start a command on a terminal of its own."""
        settings = {"COATCHECK_URL": self.url, "TERM": "xterm-256color", **settings}
        variables = environment(**settings)
        variables.pop("COLUMNS", None)  # it would stand for the size of the terminal
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=variables,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # The terminal is the command's own, so that Ctrl-C reaches it as it would a person's.
            preexec_fn=_own_terminal,  # noqa: PLW1509 - two system calls, no lock is touched
        )
        os.close(theirs)
        try:
            yield Screen(process, ours)
        finally:
            process.kill()
            process.wait()
            os.close(ours)


class Screen:
    """The output of a command on its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._written = b""

    @property
    def raw(self) -> str:
        """Everything, escapes included."""
        return self._written.decode(errors="replace")

    @property
    def text(self) -> str:
        """Everything without what moves the cursor and sets colours."""
        return _ESCAPES.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, text: str) -> None:
        """Return as soon as a text is on the screen."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.text:
            assert self._read(until), f"{text!r} was never shown, but: {self.text}"

    def press_ctrl_c(self) -> None:
        """Press the keys: the terminal makes a signal of them."""
        os.write(self._descriptor, b"\x03")

    def end(self) -> int:
        """Wait for the command to end, and return its exit code."""
        until = time.monotonic() + PATIENCE_S
        while self._read(until):
            continue
        return self.process.wait(PATIENCE_S)

    def _read(self, until: float) -> bool:
        left = max(0.0, until - time.monotonic())
        readable, _, _ = select.select([self._descriptor], [], [], left)
        try:
            piece = os.read(self._descriptor, 65536) if readable else b""
        except OSError:  # the command has ended
            piece = b""
        self._written += piece
        return bool(piece)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
