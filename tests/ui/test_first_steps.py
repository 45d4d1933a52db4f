"""Where there is nothing yet, a page says how to begin: the line it prints is run, as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from .conftest import APP, PATIENTLY, Served, come_in, show, state
from .lines import run_line

pytestmark = PATIENTLY


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Served]:
    """A server that nobody has used, without keys."""
    served = Served(tmp_path, APP)
    served.start()
    yield served
    served.stop()


def test_the_first_job_of_a_server_without_keys(context: BrowserContext, fresh: Served) -> None:
    page = context.new_page()
    show(page, fresh, "jobs")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()
    assert "Authorization" not in page.locator(".command pre").inner_text()

    assert run_line(page).startswith("HTTP/1.1 202")

    page.get_by_role("row").get_by_role("link").click()
    expect(page.get_by_role("region", name="Input")).to_contain_text("coat")


def test_the_first_of_everything_with_a_key(door: Page, served: Served) -> None:
    key = served.make_key("jobs:read", "jobs:write:order", "jobs:write:report", tenant="newcomer")
    come_in(door, key)
    expect(door.get_by_role("heading", name="No jobs yet")).to_be_visible()
    expect(door.get_by_text("with your key in COATCHECK_API_KEY")).to_be_visible()

    assert run_line(door, key).startswith("HTTP/1.1 202")

    door.get_by_role("region", name="Jobs", exact=True).get_by_role("link", name="order").click()
    state(door, "succeeded")
    show(door, served, "schedules")
    expect(door.get_by_role("heading", name="No schedules yet")).to_be_visible()
    assert run_line(door, key).startswith("HTTP/1.1 201")
    expect(door.get_by_role("row", name=re.compile("^nightly"))).to_contain_text("order")


def test_the_line_is_for_the_tenant_that_is_looked_at(page: Page, served: Served) -> None:
    key = served.make_key("jobs:read", tenant="looked-at")
    show(page, served, "jobs")
    page.get_by_label("Tenant").select_option("looked-at")
    expect(page.get_by_role("heading", name="No jobs yet")).to_be_visible()

    assert run_line(page, served.admin).startswith("HTTP/1.1 202")

    assert len(served.ask("GET", "/v1/jobs", key)["jobs"]) == 1
    show(page, served, "webhooks")
    expect(page.get_by_role("heading", name="No webhooks yet")).to_be_visible()
    made = run_line(page, served.admin)
    # Only that the example's address has no name here stands against it, where there is no network.
    assert made.startswith("HTTP/1.1 201") or "example.com" in made
