"""Record the terminal session of the README into `pictures/session.svg`.

The commands really run, in a temporary folder, and their output is shown; only the port differs.
Run it again when the output of the command line changes: `python docs/recording.py`.
"""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.syntax import Syntax
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

PICTURE = Path(__file__).parent / "pictures" / "session.svg"
COLUMNS = 88
APP = """\
from time import sleep
from coatcheck import App, Context

app = App()

def write_page(page: int) -> str:
    sleep(1)                                    # the slow part
    return f"page {page}"

@app.job(retries=5)
def report(ctx: Context, month: str) -> list[str]:
    return [ctx.step(write_page, page, key=page) for page in range(1, 5)]
"""
_STEERING = re.compile(r"\x1b\[\??[0-9;]*[A-Za-ln-z]|\x1b[()][A-B0-2]|\r")
# Which would have it fetched from another server.
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


class Session:
    """A terminal session: commands that run, shown with their output."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, "COATCHECK_URL": url, "COLUMNS": str(COLUMNS)}
        self._environment.pop("NO_COLOR", None)
        self.console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)

    def type(self, line: str) -> None:
        """Show typed text."""
        self.console.print(Text.assemble(("$ ", "bold green"), (line, "bold")))

    def run(self, *arguments: str, shown: str) -> str:
        """Run a command on a terminal and show it with its output."""
        self.type(shown)
        printed = _on_a_terminal(
            [sys.executable, "-m", "coatcheck", *arguments], self._folder, self._environment
        )
        text = _STEERING.sub("", printed).strip("\n")
        self.console.print(Text.from_ansi(text))
        return text


def record() -> Console:
    """Run the session and return the screen."""
    with tempfile.TemporaryDirectory(prefix="recording-") as name:
        folder = Path(name)
        (folder / "tasks.py").write_text(APP)
        with _serving(folder) as (server, said):
            url = said.split()[3]
            session = Session(folder, url)
            session.type("cat tasks.py")
            session.console.print(Syntax(APP.rstrip(), "python", background_color="default"))
            session.type("coatcheck serve tasks:app &")
            session.console.print(Text(said.replace(url, "http://127.0.0.1:8080").strip()))
            session.type("id=$(coatcheck submit report '\"2030-01\"')")
            job = _submitted(folder, url)
            _wait_for_a_step(url, job)
            worker = _worker_of(server)
            session.type(f"kill -9 {worker}              # the worker, in the middle of the job")
            os.kill(worker, signal.SIGKILL)
            session.run("watch", job, shown="coatcheck watch $id | cat")
            session.run("jobs", "steps", job, shown="coatcheck jobs steps $id")
            if _get(url, f"/v1/jobs/{job}")["attempt"] < 2:
                raise SystemExit("the worker was killed too late: the job had ended")
            return session.console


def _on_a_terminal(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    ours, theirs = pty.openpty()
    wants_pipe = "watch" in command
    process = subprocess.Popen(  # noqa: S603 - our own
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if wants_pipe else theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    if wants_pipe:
        printed, _ = process.communicate()
    else:
        printed = b"".join(_read(ours))
        process.wait()
    os.close(ours)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return printed.decode()


def _read(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            piece = os.read(descriptor, 65536)
        except OSError:  # the terminal was closed
            return
        if not piece:
            return
        yield piece


@contextmanager
def _serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = {**os.environ, "COATCHECK_LOG_FORMAT": "json", "COATCHECK_DRAIN_S": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "coatcheck", "serve", "tasks:app", "--port", "0"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            yield server, server.stdout.readline()
        finally:
            server.terminate()


def _worker_of(server: subprocess.Popen[str]) -> int:
    assert server.stderr is not None
    for line in server.stderr:
        said = json.loads(line)
        if said.get("child") == "worker":
            return int(said["child_pid"])
    raise SystemExit("the server has no worker")


def _submitted(folder: Path, url: str) -> str:
    command = [sys.executable, "-m", "coatcheck", "submit", "report", '"2030-01"', "--url", url]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)  # noqa: S603
    return ended.stdout.strip()


def _wait_for_a_step(url: str, job: str) -> None:
    while not _get(url, f"/v1/jobs/{job}/steps")["steps"]:
        time.sleep(0.05)


def _get(url: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx2.get(f"{url}{path}").raise_for_status().json()
    return found


def picture_of(console: Console) -> str:
    """Draw a screen as an SVG without external resources."""
    drawn = console.export_svg(title="coatcheck", theme=DIMMED_MONOKAI, unique_id="session")
    return _FONTS.sub("", drawn).replace("Fira Code", "ui-monospace, Menlo, Consolas")


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURE
    place.write_text(picture_of(record()), encoding="utf-8")
