"""A key sees what it is good for: everything that is offered to it works, and nothing is asked for
that the server refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, Response, expect

from .conftest import PATIENTLY, Served, come_in, show, state

pytestmark = PATIENTLY

JOBS, SUBMIT = "Jobs", "Submit"
ALL_KINDS = [JOBS, "Schedules", "Webhooks"]
OFFERED: dict[tuple[str, ...], list[str]] = {
    ("jobs:read",): ALL_KINDS,
    ("jobs:read", "jobs:write:parcel"): [*ALL_KINDS, SUBMIT],
    ("jobs:read", "jobs:write", "jobs:cancel"): [*ALL_KINDS, SUBMIT],
    ("jobs:read:parcel",): [JOBS],
    ("jobs:read:order", "jobs:read:parcel"): [JOBS],
    ("jobs:read:parcel", "jobs:write:parcel", "jobs:cancel:parcel"): [JOBS, SUBMIT],
    ("jobs:write:parcel",): [SUBMIT],
    ("admin",): [*ALL_KINDS, "Keys and tenants", "Audit log", SUBMIT],
}
# Of another tenant than the operator's.
TENANT = "wardrobe"
Enter = Callable[..., None]


@pytest.fixture
def enter(door: Page, served: Served) -> Iterator[Enter]:
    """Come in with a key for these scopes; from then on the server has nothing to refuse."""
    refused: list[str] = []

    def look(answer: Response) -> None:
        if answer.status >= 400:
            refused.append(f"{answer.status} {answer.url}")

    def enter(*scopes: str) -> None:
        door.on("response", look)
        come_in(door, key_for(served, *scopes))

    yield enter
    assert refused == []


def key_for(served: Served, *scopes: str) -> str:
    return served.make_key(*scopes, tenant=TENANT)


@pytest.fixture(scope="module")
def jobs(served: Served) -> dict[str, str]:
    """Jobs of two kinds, one the child of the other, a schedule of each and a webhook."""
    key = key_for(served, "admin")
    made = {}
    for kind, value in (("order", {"item": "coat"}), ("parcel", "hat")):
        job = served.ask("POST", "/v1/jobs", key, json={"kind": kind, "input": value})["id"]
        served.ask("GET", f"/v1/jobs/{job}?wait=60", key)
        made[kind] = str(job)
        every = {"kind": kind, "input": value, "every_s": 86_400}
        served.ask("PUT", f"/v1/schedules/each-{kind}", key, json=every)
    served.ask("POST", "/v1/webhooks", key, json={"url": "https://127.0.0.1:1/told"})
    return made


@pytest.mark.parametrize("scopes", OFFERED, ids=" ".join)
def test_every_page_that_is_offered_opens(
    door: Page, enter: Enter, served: Served, jobs: dict[str, str], scopes: tuple[str, ...]
) -> None:
    enter(*scopes)
    links = door.get_by_role("navigation", name="Pages").get_by_role("link")
    expect(links).to_have_text(OFFERED[scopes])
    for name in OFFERED[scopes]:
        door.get_by_role("navigation").get_by_role("link", name=name).click()
        expect(door.get_by_role("heading", level=1)).to_have_text(name)
        expect(door.get_by_text("Loading …")).to_have_count(0)
        expect(door.get_by_role("alert")).to_have_count(0)
    for kind, job in jobs.items():
        if {f"jobs:read:{kind}", "jobs:read", "admin"} & set(scopes):
            # What it has spawned is asked for last, and again and again.
            with door.expect_response(lambda answer: "parent=" in answer.url):
                show(door, served, f"jobs/{job}")
            state(door, "succeeded")
            expect(door.get_by_role("alert")).to_have_count(0)


def test_a_key_for_a_kind_sees_its_jobs_alone(
    door: Page, enter: Enter, served: Served, jobs: dict[str, str]
) -> None:
    enter("jobs:read:parcel")
    listed = door.get_by_role("region", name="Jobs", exact=True)
    expect(listed.get_by_role("link", name="parcel").first).to_be_visible()
    expect(door.get_by_label("Kind", exact=True).locator("option")).to_have_text(["parcel"])
    # Neither a link nor a word in the field leads to what it may not list.
    for address in ("jobs?kind=order", "jobs?text=order"):
        show(door, served, address)
        expect(listed.get_by_role("link", name="order")).to_have_count(0)
    for name in ("succeeded", "failed", "queued"):
        show(door, served, f"jobs?state={name}")
        expect(door.get_by_label("Status")).to_have_value(name)
        expect(door.get_by_role("group", name="All matching jobs")).to_have_count(0)
    show(door, served, f"jobs/{jobs['parcel']}")
    state(door, "succeeded")
    for name in ("Delete", "Cancel", "Run again", "Send again"):
        expect(door.get_by_role("button", name=name)).to_have_count(0)


@pytest.mark.parametrize("also", [("jobs:read:parcel",), ()], ids=["seen", "unseen"])
def test_children_are_seen_of_the_kinds_that_may_be(
    door: Page, enter: Enter, served: Served, jobs: dict[str, str], also: tuple[str, ...]
) -> None:
    enter("jobs:read:order", *also)
    with door.expect_response(lambda answer: "parent=" in answer.url):
        show(door, served, f"jobs/{jobs['order']}")
    spawned = door.get_by_role("region", name="Children")
    if also:
        expect(spawned).to_contain_text("parcel")
    else:
        expect(door.get_by_role("log")).to_contain_text("thank")
        expect(spawned).to_have_count(0)


def test_what_may_be_done_to_some_kinds_is_offered_for_those(
    door: Page, enter: Enter, served: Served, jobs: dict[str, str]
) -> None:
    enter("jobs:read", "jobs:write:parcel")
    bulk = door.get_by_role("group", name="All matching jobs")
    show(door, served, "jobs?state=succeeded")
    expect(door.get_by_role("region", name="Jobs", exact=True)).to_contain_text(jobs["order"])
    expect(bulk).to_have_count(0)
    door.get_by_label("Kind", exact=True).select_option("order")
    expect(door.get_by_role("region", name="Jobs", exact=True)).not_to_contain_text(jobs["parcel"])
    expect(bulk).to_have_count(0)
    door.get_by_label("Kind", exact=True).select_option("parcel")
    bulk.get_by_role("button", name="Delete").click()
    question = door.get_by_role("dialog", name="Delete")
    question.get_by_role("button", name="Dismiss").click()

    show(door, served, "schedules")
    for kind, count in (("parcel", 1), ("order", 0)):
        row = door.get_by_role("row", name=f"each-{kind}")
        expect(row).to_be_visible()
        expect(row.get_by_role("button", name="Run now")).to_have_count(count)
    door.get_by_role("button", name="Create schedule").click()
    expect(door.get_by_label("Kind", exact=True).locator("option")).to_have_text(["parcel"])
    door.get_by_role("button", name="Cancel").click()

    show(door, served, "webhooks")
    door.get_by_role("link", name="https://127.0.0.1:1/told").click()
    expect(door.get_by_role("region", name="Webhook deliveries")).to_be_visible()
    for name in ("Create webhook", "Rotate secret", "Send again"):
        expect(door.get_by_role("button", name=name)).to_have_count(0)
    show(door, served, "try")
    expect(door.get_by_label("Kind", exact=True).locator("option")).to_have_text(["parcel"])


def test_a_key_that_only_hands_in_is_told_the_id(door: Page, enter: Enter, served: Served) -> None:
    enter("jobs:write:parcel")
    door.get_by_role("textbox", name="Input").fill("scarf")
    door.get_by_role("button", name="Submit").click()
    told = door.get_by_role("status").filter(has_text="Submitted")
    expect(told).to_be_visible()
    job = told.inner_text().split()[-1]
    assert served.ask("GET", f"/v1/jobs/{job}?tenant={TENANT}")["kind"] == "parcel"


def test_a_key_for_nothing_here_is_told_so(door: Page, served: Served) -> None:
    door.get_by_label("API key").fill(key_for(served, "jobs:cancel"))
    door.get_by_role("button", name="Sign in").click()
    expect(door.get_by_role("main")).to_contain_text("has no scope for any page")
