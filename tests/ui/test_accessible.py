"""Every page can be used by whoever does not see it, or not well: axe finds nothing against it."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from . import axe
from .conftest import PATIENTLY, Served, show, state

pytestmark = PATIENTLY


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    program = axe.fetched(tmp_path_factory.mktemp("npm"))
    if program is None:
        pytest.skip("axe-core cannot be fetched: npm is not to be reached")
    return program


@pytest.fixture(scope="module")
def jobs(served: Served) -> dict[str, str]:
    """Jobs with all that a page of theirs can have."""
    made = {
        "order": served.submit("order", {"item": "coat"}, labels={"team": "blue"}),
        "refuse": served.submit("refuse", "no"),
        "echo_everywhere": served.submit("echo_everywhere", "ho"),
    }
    for job in made.values():
        served.wait_for_end(job)
    running = {"month": "2030-02", "pages": 12, "gate": "accessible.go"}
    return {**made, "report": served.submit("report", running)}


PAGES = {
    "overview": "Workers",
    "jobs": "Created",
    "jobs?state=failed": "All failed jobs",
    "jobs?text=nothing:there": "No matching jobs",
    "schedules": "each-day",
    "webhooks": "back office",
    "keys": "Tenants",
    "audit": "schedule",
    "audit?actor=nobody": "No matching entries",
    "try?kind=report": "As year and month",
    "try?kind=render": "Not drawn yet",
}
DIALOGS = {"schedules": "Create schedule", "webhooks": "Create webhook", "keys": "Create key"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_accessible(
    page: Page, served: Served, jobs: dict[str, str], program: str, scheme: Any
) -> None:
    page.emulate_media(color_scheme=scheme)
    daily = {"kind": "parcel", "input": "coat", "every_s": 86_400}
    served.ask("PUT", "/v1/schedules/each-day", json=daily)
    hook = {"url": "https://127.0.0.1:1/", "description": "back office", "events": ["job.phase"]}
    webhook = served.ask("POST", "/v1/webhooks", json=hook)["id"]
    spoken_of = {f"jobs/{job}": "running, attempt 1" for job in jobs.values()}
    for address, text in (PAGES | spoken_of).items():
        show(page, served, address)
        expect(page.get_by_role("main")).to_contain_text(text)
        assert axe.found_by(program, page) == [], address
    served.ask("DELETE", f"/v1/webhooks/{webhook}")
    served.ask("DELETE", "/v1/schedules/each-day")


def test_every_dialog_is_accessible(page: Page, served: Served, program: str) -> None:
    for address, button in DIALOGS.items():
        show(page, served, address)
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert axe.found_by(program, page) == [], address
        page.keyboard.press("Escape")


def test_the_door_is_accessible(door: Page, program: str) -> None:
    assert axe.found_by(program, door) == []


def test_a_phone_is_accessible(
    page: Page, served: Served, jobs: dict[str, str], program: str
) -> None:
    page.set_viewport_size({"width": 390, "height": 780})
    show(page, served, f"jobs/{jobs['order']}")
    state(page, "succeeded")
    assert axe.found_by(program, page) == []
    served.open_gate("accessible.go")
