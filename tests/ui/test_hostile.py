"""Whatever stands in a field is text: nothing of it runs, loads or changes the page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Request, expect

from .conftest import PATIENTLY, Served, show

pytestmark = PATIENTLY

RUN = "document.title='run'"
MARKUP = f'<img src=/v1/nothing onerror="{RUN}"><script>{RUN}</script>'
TEXT = f"{MARKUP} ${{7*7}} {{{{7*7}}}} \u202e javascript:{RUN}"


def test_hostile_content_is_shown_as_text(page: Page, served: Served) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(path_of(request)))
    job = served.submit("echo_everywhere", TEXT, labels={"name": MARKUP[:100]})
    served.wait_for_end(job)
    show(page, served, f"jobs/{job}")
    expect(page.get_by_role("log")).to_contain_text(MARKUP)

    for name in ("Error", "Input", "Log and output", "Details"):
        expect(page.get_by_role("region", name=name)).to_contain_text("<img src=/v1/nothing")
    expect(page.get_by_role("region", name=re.compile("^Steps"))).to_contain_text("<img")
    expect(page.get_by_label("Traceback")).to_contain_text(MARKUP)
    expect(page.get_by_role("region", name="Artifacts")).to_contain_text("page.html")
    picture = page.get_by_role("img", name="picture.svg")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 40

    show(page, served, "jobs?state=failed")
    expect(page.get_by_role("region", name="Jobs", exact=True)).to_contain_text("<img src=")
    assert page.title() == "Jobs · Coatcheck"
    assert page.locator("main script, main img[onerror], main iframe").count() == 0
    assert not [path for path in asked if path in ("/v1/nothing", "/v1/jobs?from=picture")]


def test_what_is_hostile_while_it_runs_and_waits_is_text(page: Page, served: Served) -> None:
    first, second = (served.submit("give_back", TEXT) for _ in range(2))
    show(page, served, f"jobs/{first}")
    expect(page.get_by_role("region", name="Progress")).to_contain_text(MARKUP)
    show(page, served, "jobs?state=running")
    expect(page.get_by_role("row").filter(has_text=first)).to_contain_text(MARKUP)
    show(page, served, f"jobs/{second}")
    why = page.get_by_role("region", name="Why is it waiting?")
    expect(why).to_contain_text("key-limit")
    expect(why).to_contain_text(MARKUP[:40])

    served.open_gate("given-back.go")
    served.wait_for_end(first)
    show(page, served, f"jobs/{first}")
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("<script>")
    expect(result).to_contain_text("{{7*7}}")
    assert_nothing_ran(page, "give_back succeeded · Coatcheck")


def test_hostile_notes_and_descriptions_are_text(page: Page, served: Served) -> None:
    body = {"url": "https://127.0.0.1:1/<b>", "description": MARKUP, "events": ["job.phase"]}
    webhook = served.ask("POST", "/v1/webhooks", json=body)["id"]
    served.ask("POST", "/v1/keys", json={"scopes": ["jobs:read"], "note": MARKUP})
    show(page, served, f"webhooks/{webhook}")
    expect(page.get_by_role("region", name="Webhooks", exact=True)).to_contain_text(MARKUP)
    expect(page.get_by_role("region", name=re.compile("^https"))).to_contain_text(MARKUP)
    assert_nothing_ran(page, "Webhooks · Coatcheck")
    show(page, served, "keys")
    expect(page.get_by_role("region", name="Keys", exact=True)).to_contain_text(MARKUP)
    assert_nothing_ran(page, "Keys and tenants · Coatcheck")
    served.ask("DELETE", f"/v1/webhooks/{webhook}")


def assert_nothing_ran(page: Page, title: str) -> None:
    """What was shown as text has made no elements, and no script of it has run."""
    expect(page).to_have_title(title)
    assert page.locator("main script, main img, main iframe").count() == 0


def test_hostile_addresses_lead_nowhere(page: Page, served: Served, problems: list[str]) -> None:
    for address in ("jobs/%3Cimg%20src%3Dx%3E", "jobs/..%2f..%2fdocs", "%3Cscript%3E"):
        show(page, served, address)
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        assert page.locator("main img, main script").count() == 0
    assert {text for text in problems if "404" not in text} == set()
    problems.clear()


def path_of(request: Request) -> str:
    return re.sub(r"^https?://[^/]+", "", request.url)
