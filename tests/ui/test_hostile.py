"""Whatever stands in a field is text: nothing of it runs, loads or changes the page."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Request, expect

from .conftest import TOGETHER, Served, show

pytestmark = TOGETHER

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

    for name in ("Error", "Input", "Log and output", "Facts"):
        expect(page.get_by_role("region", name=name)).to_contain_text("<img src=/v1/nothing")
    expect(page.get_by_role("region", name=re.compile("^Steps"))).to_contain_text("<img")
    expect(page.get_by_label("Traceback")).to_contain_text(MARKUP)
    expect(page.get_by_role("region", name="Files")).to_contain_text("page.html")
    picture = page.get_by_role("img", name="picture.svg")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") == 40

    show(page, served, "jobs?state=failed")
    expect(page.get_by_role("region", name="Jobs", exact=True)).to_contain_text("<img src=")
    assert page.title() == "Jobs · Coatcheck"
    assert page.locator("main script, main img[onerror], main iframe").count() == 0
    assert not [path for path in asked if path in ("/v1/nothing", "/v1/jobs?from=picture")]


def test_hostile_addresses_lead_nowhere(page: Page, served: Served, problems: list[str]) -> None:
    for address in ("jobs/%3Cimg%20src%3Dx%3E", "jobs/..%2f..%2fdocs", "%3Cscript%3E"):
        show(page, served, address)
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        assert page.locator("main img, main script").count() == 0
    assert {text for text in problems if "404" not in text} == set()
    problems.clear()


def path_of(request: Request) -> str:
    return re.sub(r"^https?://[^/]+", "", request.url)
