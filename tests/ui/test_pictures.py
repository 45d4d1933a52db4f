"""Every page with something on it, in the light and on a phone. The pictures of the documentation
are written anew where COATCHECK_PICTURES asks for it:

    COATCHECK_PICTURES=1 pytest tests/ui/test_pictures.py tests/ui/test_documents.py
"""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from coatcheck.clock import SystemClock
from coatcheck.engine.maintenance.throughput import MINUTE_MS, Throughput
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import StoppedClock

from .conftest import PATIENTLY, ROOT, Served, show, state
from .pictures import FOLDER, keep
from .receiver import receiver

pytestmark = PATIENTLY

LARGEST = 150_000
STATIC = ROOT / "src/coatcheck/ui/static"
MANUAL = ROOT / "docs/how-to/cockpit.md"


@pytest.fixture(scope="module")
def busy(served: Served) -> Iterator[dict[str, str]]:
    """Some hours' work at once, and the ids of what is looked at."""
    with receiver() as told:
        yield make_busy(served, told.url)


def make_busy(served: Served, told: str) -> dict[str, str]:
    for n in range(60):
        month, team = f"2030-{n % 12 + 1:02}", ("blue", "red")[n % 2]
        served.submit("report", {"month": month}, labels={"team": team})
    for reason in ("the printer is on fire", "no such customer: 4711"):
        served.submit("refuse", reason)
    served.submit("hold", "pictures.go", run_at="2099-01-01T00:00:00Z")
    hook = {"url": told, "description": "The shop's back office"}
    served.ask("POST", "/v1/webhooks", json=hook)
    in_a_thread(lambda: asyncio.run(past_hour(served)))
    nightly = {"kind": "report", "input": {"month": "2030-01"}, "cron": "0 3 * * *"}
    served.ask("PUT", "/v1/schedules/nightly-report", json=nightly)
    often = {"kind": "parcel", "input": "coat", "every_s": 900}
    served.ask("PUT", "/v1/schedules/parcels", json=often)
    served.make_key("jobs:read", "jobs:write", tenant="acme")
    running = served.submit("report", {"month": "2030-02", "pages": 12, "gate": "pictures.go"})
    order = served.submit("order", {"item": "coat"})
    served.wait_for_end(order)
    return {"order": order, "running": running}


async def past_hour(served: Served) -> None:
    """Write what might have ended within the last hour."""
    store = SQLiteStore(served.database)
    await store.open()
    clock = StoppedClock()
    now = SystemClock().now()
    counted = Throughput(store, clock)
    for minute in range(1, 60):
        clock.milliseconds = now - minute * MINUTE_MS
        for n in range(round(30 + 22 * math.sin(minute / 9) + minute * 7 % 13)):
            counted.finished("default", "report", "failed" if n % 23 == 22 else "succeeded")
        await counted.flush()
    await store.close()


def in_a_thread(work: Callable[[], object]) -> None:
    """Do something apart from this thread's loop, which is playwright's."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_the_overview(page: Page, served: Served, busy: dict[str, str]) -> None:
    show(page, served, "overview")
    expect(page.get_by_role("img", name=re.compile("jobs finished"))).to_be_visible()
    expect(page.get_by_role("region", name="Workers").get_by_title(busy["running"])).to_be_visible()
    keep(page, "overview")
    page.emulate_media(color_scheme="dark")
    expect(page.locator("body")).to_have_css("background-color", "rgb(14, 18, 19)")
    keep(page, "overview-dark")


def test_the_jobs(page: Page, served: Served, busy: dict[str, str]) -> None:
    show(page, served, "jobs")
    jobs = page.get_by_role("region", name="Jobs", exact=True)
    expect(jobs).to_contain_text(busy["order"])
    keep(page, "jobs")
    page.get_by_role("button", name="Older").click()
    expect(page.get_by_text("Page 2")).to_be_visible()
    expect(jobs).not_to_contain_text(busy["order"])
    page.get_by_role("button", name="Newer").click()

    page.set_viewport_size({"width": 390, "height": 780})
    expect(jobs).to_contain_text(busy["order"])
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.evaluate("scrollTo(0, 0)")
    keep(page, "phone")


def test_a_job(page: Page, served: Served, busy: dict[str, str]) -> None:
    show(page, served, f"jobs/{busy['order']}")
    state(page, "succeeded")
    expect(page.get_by_role("img", name=re.compile("6 steps"))).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 1180})
    expect(page.get_by_role("region", name=re.compile("^Steps"))).to_be_visible()
    keep(page, "job")
    page.set_viewport_size({"width": 390, "height": 780})
    expect(page.get_by_role("img", name=re.compile("6 steps"))).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_other_pages(page: Page, served: Served, busy: dict[str, str]) -> None:
    page.set_viewport_size({"width": 1280, "height": 620})
    for address, text in (
        ("schedules", "nightly-report"),
        ("webhooks", "back office"),
        ("keys", "acme"),
        ("audit", "nightly-report"),
        ("try?kind=report", "As year and month"),
    ):
        show(page, served, address)
        expect(page.get_by_role("main")).to_contain_text(text)
        if address == "webhooks":
            page.get_by_role("row", name=re.compile(text)).get_by_role("link").click()
            deliveries = page.get_by_role("region", name="Webhook deliveries")
            expect(deliveries).to_contain_text("job.succeeded")
        keep(page, re.sub(r"\W.*", "", address))
    show(page, served, "try?kind=render")
    page.get_by_role("button", name="Draw").click()
    expect(page.get_by_role("img", name="diagram.svg")).to_be_visible()
    keep(page, "diagram")
    for address in ("schedules", "webhooks", "keys", "audit", "try?kind=report", "overview"):
        page.set_viewport_size({"width": 390, "height": 780})
        show(page, served, address)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390, address


def test_the_door(door: Page) -> None:
    expect(door.get_by_label("API key")).to_be_focused()


def test_every_page_has_its_picture_and_every_picture_its_place() -> None:
    there = {path.stem.removeprefix("cockpit-"): path for path in FOLDER.glob("cockpit-*.png")}
    pages = re.findall(r'{ path: "(\w+)"', (STATIC / "main.js").read_text())
    assert len(pages) == 8
    assert {*pages, "job"} <= there.keys()
    told = MANUAL.read_text()
    for path in there.values():
        assert f"](../pictures/{path.name})" in told, path.name
        assert path.stat().st_size < LARGEST, path.name
