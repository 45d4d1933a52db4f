"""What the page of a job tells, and that it can be used by the keyboard and by screen readers."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from .conftest import APP, PATIENTLY, Served, come_in, show, state
from .receiver import SCAN, receiver

pytestmark = PATIENTLY


def test_a_job_that_waits_says_why(page: Page, served: Served) -> None:
    why = page.get_by_role("region", name="Why is it waiting?")
    later = served.submit("hold", "later.go", run_at="2099-01-01T00:00:00Z")
    show(page, served, f"jobs/{later}")
    expect(why).to_contain_text("delayed")
    expect(why).to_contain_text("2099-01-01T00:00:00")

    served.ask("POST", "/v1/queues/parcels/pause")
    job = served.submit("parcel", "coat")
    show(page, served, f"jobs/{job}")
    expect(why).to_contain_text("queue 'parcels' is paused")
    said = served.ask("GET", f"/v1/jobs/{job}?explain=1")["explain"]
    for reason in said:
        expect(why).to_contain_text(reason["message"])
    served.ask("POST", "/v1/queues/parcels/resume")
    state(page, "succeeded")
    expect(why).to_have_count(0)
    served.ask("POST", f"/v1/jobs/{later}/cancel")


def test_children_are_a_tree(page: Page, served: Served) -> None:
    job = served.submit("family", 2)
    served.wait_for_end(job)
    ids = [job]
    for _ in range(2):
        [child] = served.ask("GET", f"/v1/jobs?parent={ids[-1]}")["jobs"]
        ids.append(child["id"])
    show(page, served, f"jobs/{job}")
    spawned = page.get_by_role("region", name="Children")
    expect(spawned.get_by_role("link")).to_have_count(1)
    expect(spawned).to_contain_text(ids[1][-8:])

    spawned.get_by_role("button", name="children").click()
    expect(spawned.get_by_role("link")).to_have_count(2)
    spawned.get_by_role("button", name="children").click()
    expect(spawned).to_contain_text("None.")
    spawned.get_by_role("link", name=ids[2][-8:]).click()

    expect(page.locator(".id")).to_contain_text(ids[2])
    page.get_by_role("link", name=ids[1]).click()  # who has spawned it
    expect(page.locator(".id")).to_contain_text(ids[1])
    spawned.get_by_role("button", name="children").click()
    expect(spawned.get_by_role("button", name="collapse")).to_be_visible()


def test_a_large_input_is_collapsed(page: Page, served: Served) -> None:
    value = "a long reason " * 1000
    job = served.submit("refuse", value)
    show(page, served, f"jobs/{job}")
    given = page.get_by_role("region", name="Input")
    text = given.get_by_label("the input", exact=True)
    expect(text).to_contain_text("…")
    assert len(text.inner_text()) < 6_100

    given.get_by_role("button", name="Show all (14 kB)").click()
    expect(text).not_to_contain_text("…")
    assert json.loads(text.inner_text()) == value
    given.get_by_role("button", name="Collapse").click()
    expect(text).to_contain_text("…")


def test_what_is_no_text_or_too_much_is_downloaded(page: Page, served: Served) -> None:
    job = served.submit("scan", 1_200_000)
    served.wait_for_end(job)
    show(page, served, f"jobs/{job}")
    files = page.get_by_role("region", name="Artifacts")
    expect(files).to_contain_text("application/octet-stream, 256 B")
    name, content = downloaded(page, files.get_by_role("button", name="Save"))
    assert (name, content) == ("scan.bin", bytes(range(256)))

    result = page.get_by_role("region", name="Result")
    name, content = downloaded(page, result.get_by_role("button", name="Download 1.2 MB"))
    assert name == f"{job}-result"
    assert json.loads(content) == "x" * 1_200_000


def test_a_result_that_is_no_json_is_downloaded(context: BrowserContext, tmp_path: Path) -> None:
    """The answer of a service behind the proxy is its own, whatever it is."""
    rules = tmp_path / "rules.toml"
    with receiver() as service:
        address = service.url.removesuffix("/told")
        rules.write_text(f'[[proxy]]\nmatch = "GET /scan"\ntarget = "{address}"\nwait = 0\n')
        served = Served(tmp_path, APP, COATCHECK_CONFIG=str(rules))
        served.start()
        try:
            job = served.ask("GET", "/scan")["id"]
            served.wait_for_end(job)
            page = context.new_page()
            show(page, served, f"jobs/{job}")
            result = page.get_by_role("region", name="Result")
            button = result.get_by_role("button", name="Download 256 B")
            assert downloaded(page, button) == (f"{job}-result", SCAN)
        finally:
            served.stop()


def downloaded(page: Page, button: Locator) -> tuple[str, bytes]:
    with page.expect_download() as saved:
        button.click()
    return saved.value.suggested_filename, Path(saved.value.path()).read_bytes()


def test_times_are_the_reader_s_with_the_exact_one_on_hover(
    browser: Browser, served: Served
) -> None:
    job = served.submit("parcel", "clock")
    created = served.wait_for_end(job)["created_at"]
    for zone in ("Asia/Tokyo", "America/St_Johns"):
        local = datetime.fromisoformat(created).astimezone(ZoneInfo(zone))
        context = browser.new_context(timezone_id=zone, locale="en-GB")
        page = context.new_page()
        page.goto(f"{served.url}/ui#/jobs/{job}")
        come_in(page, served.admin)
        fact = page.get_by_role("region", name="Details").locator(".fact", has_text="Created")
        shown = fact.locator("time")
        expect(shown).to_have_text(f"{local:%H:%M:%S}")
        expect(shown).to_have_attribute("datetime", created)
        exact = str(shown.get_attribute("title"))
        assert f"{local:%H:%M:%S}" in exact
        assert f"{local:%A}" in exact
        assert exact.endswith(created)
        context.close()


CONTROLS = """() => {
  const wanted = "a[href], button:enabled, input, select, textarea, summary, [tabindex='0']";
  window.controls = [...document.querySelectorAll(wanted)].filter((each) => each.checkVisibility());
  return window.controls.map((each) => each.outerHTML.slice(0, 100));
}"""
FOCUSED = "() => window.controls.indexOf(document.activeElement)"


def test_the_keyboard_reaches_and_works_every_control(page: Page, served: Served) -> None:
    job = served.submit("order", {"item": "coat"})
    served.wait_for_end(job)
    show(page, served, f"jobs/{job}")
    expect(page.get_by_role("region", name="Children")).to_be_visible()
    expect(page.get_by_role("button", name="Fork from thank")).to_be_visible()
    page.get_by_role("main").focus()
    controls = page.evaluate(CONTROLS)
    reached = set()
    for _ in range(2 * len(controls)):
        page.keyboard.press("Tab")
        reached.add(page.evaluate(FOCUSED))
    missed = [text for number, text in enumerate(controls) if number not in reached]
    assert missed == []

    only = page.get_by_role("button", name="log", exact=True)
    only.focus()
    page.keyboard.press("Space")
    expect(only).to_have_attribute("aria-pressed", "true")
    follow = page.get_by_label("follow")
    follow.focus()
    page.keyboard.press("Space")
    expect(follow).not_to_be_checked()
    fork = page.get_by_role("button", name="Fork from thank")
    fork.focus()
    page.keyboard.press("Enter")
    question = page.get_by_role("dialog", name="Fork from thank?")
    expect(question).to_be_visible()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(fork).to_be_focused()  # where the reader was
    page.keyboard.press("Enter")
    expect(question.get_by_role("button", name="Dismiss")).to_be_focused()
    page.keyboard.press("Tab")
    expect(question.get_by_role("button", name="Fork", exact=True)).to_be_focused()
    page.keyboard.press("Space")
    expect(page.get_by_text("Forked from")).to_be_visible()
