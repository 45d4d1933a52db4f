"""A browser reaches nothing, is stopped when necessary, and never outlives its parent."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck.sandbox import DetectedSandbox, SandboxBackend
from coatcheck.sandbox.detect import why_unavailable
from coatcheck.surfaces.render.drawing import DrawingError, Format, Output, Picture
from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine, browser, engine
from coatcheck.surfaces.render.drawing.chromium.page import LOADED, BrowserPage
from tests.debian import program_of
from tests.surfaces.render.drawing.conftest import IN_A_BROWSER
from tests.surfaces.render.drawing.picture_analysis import texts

pytestmark = [*IN_A_BROWSER, pytest.mark.usefixtures("chromium")]

PATIENCE_S = 60.0
SECRET = "canary_in_the_mine"

# Draws, prints the supervisor's pid and the profile, and waits to be killed.
SCRIPT = """
import sys
from coatcheck.surfaces.render.drawing import Format, Output
from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine
engine = ChromiumEngine()
engine.draw("flowchart LR\\n A --> B", Format.MERMAID, Output.SVG)
print(engine._browser.process.pid, engine._browser.folder, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def alone() -> Iterator[ChromiumEngine]:
    """An engine with a browser of its own."""
    made = ChromiumEngine()
    yield made
    made.close()


def draw(with_: ChromiumEngine, source: str = "flowchart LR\n A[Hand in] --> B") -> Picture:
    return with_.draw(source, Format.MERMAID, Output.SVG)


def browser_of(of: ChromiumEngine) -> browser.Browser:
    assert of._browser is not None
    return of._browser


def page_of(of: ChromiumEngine) -> BrowserPage:
    draw(of)
    assert of._page is not None
    return of._page


def deadline() -> float:
    return time.monotonic() + PATIENCE_S


def test_no_script_of_a_page_runs(alone: ChromiumEngine) -> None:
    # As if Mermaid had let everything through.
    tried = """new Promise((done) => {
      addEventListener("securitypolicyviolation", () => done(globalThis.ran ?? "held"));
      document.body.innerHTML = `<img src="data:," onerror="globalThis.ran = 'ran'; ran()">`;
    })"""
    assert page_of(alone)._evaluate(tried, deadline()) == "held"
    tried = """new Promise((done) => {
      addEventListener("securitypolicyviolation", () => done(globalThis.ran ?? "held"));
      const script = document.createElement("script");
      script.textContent = "globalThis.ran = 'ran'";
      document.body.append(script);
    })"""
    assert page_of(alone)._evaluate(tried, deadline()) == "held"


def test_page_makes_no_requests(alone: ChromiumEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        image = """new Promise((done) => {
          const image = new Image();
          image.onload = () => done("called");
          image.onerror = () => done("held");
          image.src = "URL";
        })"""
        fetched = "fetch('URL').then(() => 'called', () => 'held')"
        for tried in (fetched.replace("URL", url), image.replace("URL", url)):
            assert page_of(alone)._evaluate(tried, deadline()) == "held"
        # Without the page's policy: the browser itself navigates there.
        gone = page_of(alone)._call("Page.navigate", deadline(), url=url)
        assert gone["errorText"]
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_no_file_is_read(alone: ChromiumEngine, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    address = (tmp_path / "secret.txt").as_uri()
    tried = f"fetch('{address}').then((found) => found.text(), () => 'held')"
    assert page_of(alone)._evaluate(tried, deadline()) == "held"
    # The browser itself, to which the page's policy does not apply, only the sandbox.
    opened = page_of(alone)
    opened._call("Page.navigate", deadline(), url=address)
    shown = opened._evaluate(f"{LOADED}.then(() => document.documentElement.outerHTML)", deadline())
    assert SECRET not in shown


def test_dead_browser_is_replaced(alone: ChromiumEngine) -> None:
    draw(alone)
    first = browser_of(alone)
    with expect_end(list(browser._descendants(first.process.pid))):
        first.process.kill()  # the supervisor, which then cleans up nothing
        first.wait()
        assert "Hand in" in texts(draw(alone).content)
        assert browser_of(alone) is not first


@contextlib.contextmanager
def expect_end(pids: list[int]) -> Iterator[None]:
    """Wait until processes have ended, whoever owns them and whatever ends them."""
    with contextlib.ExitStack() as opened:
        ends = [os.pidfd_open(pid) for pid in pids]
        for end in ends:
            opened.callback(os.close, end)
        yield
        for end in ends:
            assert select.select([end], [], [], PATIENCE_S)[0], "the process is still running"


def test_crashed_page_is_replaced(alone: ChromiumEngine) -> None:
    draw(alone)
    first = browser_of(alone)
    for pid in list(browser._descendants(first.process.pid)):
        if b"--type=renderer" in command_of(pid):
            os.kill(pid, signal.SIGKILL)
    assert "Hand in" in texts(draw(alone).content)
    assert browser_of(alone) is not first


def test_diagram_that_crashes_its_page_fails(
    alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: BrowserPage, *_: object, **__: object) -> None:
        self._call("Page.crash", deadline())

    with monkeypatch.context() as crashing:
        crashing.setattr(BrowserPage, "draw", crash)
        with pytest.raises(DrawingError, match="exceeds the memory limit"):
            draw(alone)
    assert "Hand in" in texts(draw(alone).content)


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_diagram_over_the_time_limit_stops_the_browser(
    alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(alone)
    first = browser_of(alone)
    actors = "\n".join(f" a{n}->>a{n + 1}: x" for n in range(5000))
    with monkeypatch.context() as shorter:
        shorter.setattr(engine, "DRAW_TIMEOUT_S", 0.5)
        with pytest.raises(DrawingError, match=r"takes longer than 0\.5 s"):
            draw(alone, f"sequenceDiagram\n{actors}")
    first.wait()
    assert not first.folder.exists()
    assert "Hand in" in texts(draw(alone).content)


@pytest.mark.parametrize(
    ("limit", "value"), [("MAX_DIAGRAMS", 1), ("MAX_AGE_S", 0.0), ("MAX_BYTES", 1)]
)
def test_browser_is_replaced_at_its_limits(
    limit: str, value: float, alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(alone)
    first = browser_of(alone)
    draw(alone)
    assert browser_of(alone) is first
    monkeypatch.setattr(engine, limit, value)
    draw(alone)
    assert browser_of(alone) is not first
    first.wait()
    assert not first.folder.exists()


def test_draws_in_the_other_sandbox(alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    program_of("bubblewrap", "bwrap")
    if (reason := why_unavailable(SandboxBackend.BUBBLEWRAP)) is not None:
        pytest.skip(reason)
    weaker = DetectedSandbox(SandboxBackend.BUBBLEWRAP, "bubblewrap")
    monkeypatch.setattr(browser, "detect_sandbox", lambda: weaker)
    assert "Hand in" in texts(draw(alone).content)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_browser_does_not_outlive_its_parent(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        keeper, folder = process.stdout.readline().split()
        family = list(browser._descendants(int(keeper)))
        assert len(family) > 2
        with expect_end(family):
            process.send_signal(number)
            process.wait()
    assert not Path(folder).exists()


def test_normal_exit_leaves_no_browser() -> None:
    process = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="",
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
    )
    keeper, folder = process.stdout.split()
    try:
        end = os.pidfd_open(int(keeper))
    except ProcessLookupError:
        pass
    else:
        assert select.select([end], [], [], PATIENCE_S)[0], "the process is still running"
        os.close(end)
    assert not Path(folder).exists()
