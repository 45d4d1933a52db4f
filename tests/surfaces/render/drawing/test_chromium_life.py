"""A browser reaches nothing, is ended when it should be, and never outlives who started it."""

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
from coatcheck.sandbox.detect import why_not
from coatcheck.surfaces.render.drawing import DrawingError, Format, Output, Picture
from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine, browser, engine
from coatcheck.surfaces.render.drawing.chromium.page import LOADED, BrowserPage
from tests.debian import program_of
from tests.surfaces.render.drawing.conftest import IN_A_BROWSER
from tests.surfaces.render.drawing.looking import texts

pytestmark = [*IN_A_BROWSER, pytest.mark.usefixtures("chromium")]

PATIENCE_S = 60.0
SECRET = "canary_in_the_mine"

# Draws, says who holds the browser and where its profile is, and waits to be killed.
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
    """An engine with a browser that nobody else draws in."""
    made = ChromiumEngine()
    yield made
    made.close()


def draw(with_: ChromiumEngine, source: str = "flowchart LR\n A[Hand in] --> B") -> Picture:
    return with_.draw(source, Format.MERMAID, Output.SVG)


def holder(of: ChromiumEngine) -> browser.Browser:
    assert of._browser is not None
    return of._browser


def page(of: ChromiumEngine) -> BrowserPage:
    draw(of)
    assert of._page is not None
    return of._page


def soon() -> float:
    return time.monotonic() + PATIENCE_S


def test_no_script_of_a_page_runs(alone: ChromiumEngine) -> None:
    # As if Mermaid had let everything through.
    tried = """new Promise((done) => {
      addEventListener("securitypolicyviolation", () => done(globalThis.ran ?? "held"));
      document.body.innerHTML = `<img src="data:," onerror="globalThis.ran = 'ran'; ran()">`;
    })"""
    assert page(alone)._evaluate(tried, soon()) == "held"
    tried = """new Promise((done) => {
      addEventListener("securitypolicyviolation", () => done(globalThis.ran ?? "held"));
      const script = document.createElement("script");
      script.textContent = "globalThis.ran = 'ran'";
      document.body.append(script);
    })"""
    assert page(alone)._evaluate(tried, soon()) == "held"


def test_nothing_is_called_from_a_page(alone: ChromiumEngine) -> None:
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
            assert page(alone)._evaluate(tried, soon()) == "held"
        # The page's own walls left out: the browser itself is told to go there.
        gone = page(alone)._call("Page.navigate", soon(), url=url)
        assert gone["errorText"]
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_no_file_is_read(alone: ChromiumEngine, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text(SECRET)
    address = (tmp_path / "secret.txt").as_uri()
    tried = f"fetch('{address}').then((found) => found.text(), () => 'held')"
    assert page(alone)._evaluate(tried, soon()) == "held"
    # The browser itself, which holds the page's policy no more: the sandbox does.
    opened = page(alone)
    opened._call("Page.navigate", soon(), url=address)
    shown = opened._evaluate(f"{LOADED}.then(() => document.documentElement.outerHTML)", soon())
    assert SECRET not in shown


def test_a_browser_that_has_died_is_replaced(alone: ChromiumEngine) -> None:
    draw(alone)
    first = holder(alone)
    with ending(list(browser._family(first.process.pid))):
        first.process.kill()  # the keeper itself, which then sees to nothing any more
        first.wait()
        assert "Hand in" in texts(draw(alone).content)
        assert holder(alone) is not first


@contextlib.contextmanager
def ending(pids: list[int]) -> Iterator[None]:
    """Wait for the end of processes; whoever they belong to, and whatever ends them."""
    with contextlib.ExitStack() as opened:
        ends = [os.pidfd_open(pid) for pid in pids]
        for end in ends:
            opened.callback(os.close, end)
        yield
        for end in ends:
            assert select.select([end], [], [], PATIENCE_S)[0], "it lives on"


def test_a_page_that_has_crashed_is_replaced(alone: ChromiumEngine) -> None:
    draw(alone)
    first = holder(alone)
    for pid in list(browser._family(first.process.pid)):
        if b"--type=renderer" in command_of(pid):
            os.kill(pid, signal.SIGKILL)
    assert "Hand in" in texts(draw(alone).content)
    assert holder(alone) is not first


def test_a_diagram_that_crashes_its_page_has_failed(
    alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(self: BrowserPage, *_: object, **__: object) -> None:
        self._call("Page.crash", soon())

    with monkeypatch.context() as crashing:
        crashing.setattr(BrowserPage, "draw", crash)
        with pytest.raises(DrawingError, match="more memory than there is"):
            draw(alone)
    assert "Hand in" in texts(draw(alone).content)


def command_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_diagram_that_takes_too_long_ends_the_browser(
    alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(alone)
    first = holder(alone)
    actors = "\n".join(f" a{n}->>a{n + 1}: x" for n in range(5000))
    with monkeypatch.context() as shorter:
        shorter.setattr(engine, "DRAW_TIMEOUT_S", 0.5)
        with pytest.raises(DrawingError, match=r"takes longer than 0\.5 s"):
            draw(alone, f"sequenceDiagram\n{actors}")
    first.wait()
    assert not first.folder.exists()
    assert "Hand in" in texts(draw(alone).content)


@pytest.mark.parametrize(
    ("limit", "value"), [("MOST_DIAGRAMS", 1), ("OLDEST_S", 0.0), ("LARGEST_BYTES", 1)]
)
def test_a_browser_is_let_go(
    limit: str, value: float, alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw(alone)
    first = holder(alone)
    draw(alone)
    assert holder(alone) is first
    monkeypatch.setattr(engine, limit, value)
    draw(alone)
    assert holder(alone) is not first
    first.wait()
    assert not first.folder.exists()


def test_it_draws_in_the_other_sandbox(
    alone: ChromiumEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    program_of("bubblewrap", "bwrap")
    if (reason := why_not(SandboxBackend.BUBBLEWRAP)) is not None:
        pytest.skip(reason)
    weaker = DetectedSandbox(SandboxBackend.BUBBLEWRAP, "bubblewrap")
    monkeypatch.setattr(browser, "sandbox_in_force", lambda: weaker)
    assert "Hand in" in texts(draw(alone).content)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_who_started_it(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        keeper, folder = process.stdout.readline().split()
        family = list(browser._family(int(keeper)))
        assert len(family) > 2
        with ending(family):
            process.send_signal(number)
            process.wait()
    assert not Path(folder).exists()


def test_an_end_without_a_signal_leaves_nothing_either() -> None:
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
        assert select.select([end], [], [], PATIENCE_S)[0], "it lives on"
        os.close(end)
    assert not Path(folder).exists()
