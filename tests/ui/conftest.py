"""One server for the tests of the cockpit in a process, a browser for each module. What goes wrong
in a page fails a test, whatever it looks at.
"""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from coatcheck.cli.demo.command import ANNOUNCEMENT
from tests.cli.processes import COMMAND, Lines, environment
from tests.debian import program_of

ROOT = Path(__file__).resolve().parents[2]
APP = "tests.ui.app:app"
PATIENCE_MS = 30_000
# A browser is a large package, where it has to be installed first.
INSTALLING_S = 500
PATIENTLY = pytest.mark.timeout(2 * INSTALLING_S)


class Served:
    """A server that can be stopped and started again, at the same address."""

    def __init__(self, folder: Path, *app: str, **settings: str) -> None:
        self.folder = folder
        self.app = app  # none: the surfaces that are installed
        self.settings = settings
        self.url = ""
        self.admin = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        port = self.url.rpartition(":")[2] or "0"
        arguments = ["serve", *self.app, "--in-process", "--port", port]
        settings = {
            "PYTHONPATH": str(ROOT),
            "COATCHECK_DATABASE": f"sqlite:///{self.database}",
            "COATCHECK_LOG_LEVEL": "warning",
            "COATCHECK_PEPPER": "a pepper for tests",
            "COATCHECK_EGRESS_ALLOW": "127.0.0.1",
            **self.settings,
        }
        self._process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=self.folder,
            env=environment(**settings),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = Lines(self._process.stdout).wait_for(ANNOUNCEMENT)
        self.url = line.removeprefix(ANNOUNCEMENT).split()[0]

    def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(60)

    @property
    def database(self) -> Path:
        return self.folder / "jobs.db"

    def open_gate(self, name: str) -> None:
        (self.folder / name).touch()

    def ask(self, method: str, path: str, key: str | None = None, **more: Any) -> Any:
        """Ask the API with a key, the operator's unless told."""
        headers = {"Accept": "application/json"}
        if key or self.admin:
            headers["Authorization"] = f"Bearer {key or self.admin}"
        answer = httpx2.request(method, self.url + path, headers=headers, timeout=60, **more)
        assert answer.is_success, answer.text
        return answer.json()

    def submit(self, kind: str, value: Any, **fields: Any) -> str:
        body = {"kind": kind, "input": value, **fields}
        return str(self.ask("POST", "/v1/jobs", json=body)["id"])

    def wait_for_end(self, job_id: str) -> dict[str, Any]:
        return dict(self.ask("GET", f"/v1/jobs/{job_id}?wait=60"))

    def make_key(self, *scopes: str, tenant: str = "default") -> str:
        body = {"scopes": scopes, "tenant": tenant, "note": "for a test"}
        return str(self.ask("POST", "/v1/keys", json=body)["key"])


@pytest.fixture(scope="package")  # no longer: also a server that nobody asks is at work
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    served = Served(tmp_path_factory.mktemp("cockpit"), APP)
    try:
        served.start()
        served.admin = served.make_key("admin")
        yield served
    finally:
        served.stop()


@pytest.fixture(scope="module")  # playwright's loop must not be there for tests with their own
def browser() -> Iterator[Browser]:
    program = program_of("chromium", "chromium", INSTALLING_S)
    if program is None:
        pytest.skip("there is no Chromium here, and Debian's cannot be installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    expect.set_options(timeout=PATIENCE_MS)
    context = browser.new_context(viewport={"width": 1280, "height": 860}, locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    yield context
    context.close()


@pytest.fixture
def problems() -> list[str]:
    """What went wrong in a page, where that is no part of the test; empty it to forgive."""
    return []


@pytest.fixture
def door(context: BrowserContext, served: Served, problems: list[str]) -> Iterator[Page]:
    """The cockpit before anybody has come in."""
    page = context.new_page()
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(f"a dialog: {dialog.message}"))
    page.goto(f"{served.url}/ui")
    expect(page.get_by_label("API key")).to_be_visible()
    problems.clear()  # that the door is closed at first is logged as a failed request
    yield page
    assert problems == []


@pytest.fixture
def page(door: Page, served: Served) -> Page:
    """The cockpit, with the operator in it."""
    come_in(door, served.admin)
    return door


def come_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("navigation", name="Pages")).to_be_visible()


def show(page: Page, served: Served, address: str) -> None:
    """Go to a page of the cockpit, as by a link."""
    page.goto(f"{served.url}/ui#/{address}")


def state(page: Page, name: str) -> None:
    """Wait until the job that is looked at is in a state."""
    expect(page.locator("h1 .state")).to_contain_text(name)
