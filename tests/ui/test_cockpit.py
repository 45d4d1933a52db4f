"""The cockpit in a real browser: what people come for."""

from __future__ import annotations

import re
import signal

from playwright.sync_api import Page, expect

from .conftest import PATIENTLY, Served, show, state
from .receiver import receiver

pytestmark = PATIENTLY


# I08, I09: a job is submitted, watched, and looked through.
def test_a_job_is_handed_in_and_watched_to_its_end(
    page: Page, served: Served, problems: list[str]
) -> None:
    page.get_by_role("link", name="Submit").click()
    page.get_by_label("Kind").select_option("report")
    page.get_by_label("month").fill("January")
    page.get_by_label("gate").fill("watched.go")
    page.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("alert")).to_contain_text("pattern")
    problems.clear()  # a request that is refused is logged as failed

    page.get_by_label("month").fill("2030-01")
    page.get_by_role("button", name="Submit").click()

    state(page, "running")
    expect(page.get_by_role("region", name="Progress")).to_contain_text("75%")
    log = page.get_by_role("log")
    expect(log).to_contain_text("page 3 is written")
    expect(log).not_to_contain_text("page 4 is written")
    served.open_gate("watched.go")
    expect(log).to_contain_text("page 4 is written")
    state(page, "succeeded")
    expect(page.get_by_role("region", name="Result")).to_contain_text('"month": "2030-01"')
    expect(page.get_by_role("region", name="Input")).to_contain_text('"pages": 4')
    expect(page.get_by_role("list", name="State history")).to_contain_text("queued")
    expect(page).to_have_title("report succeeded · Coatcheck")


def test_a_job_is_cancelled_and_resumed(page: Page, served: Served) -> None:
    job = served.submit("hold", "resumed.go")
    show(page, served, f"jobs/{job}")
    state(page, "running")

    page.get_by_role("button", name="Cancel").click()
    state(page, "cancelled")
    served.open_gate("resumed.go")
    page.get_by_role("button", name="Resume").click()

    state(page, "succeeded")
    assert served.ask("GET", f"/v1/jobs/{job}")["result"] == "resumed.go"


def test_a_job_is_forked_from_a_step(page: Page, served: Served) -> None:
    job = served.submit("order", {"item": "coat"})
    served.wait_for_end(job)
    show(page, served, f"jobs/{job}")
    drawn = page.get_by_role("img", name=re.compile("Timeline of .*: 6 steps"))
    expect(drawn).to_be_visible()
    expect(drawn).to_contain_text("×2")
    expect(page.get_by_role("region", name="Children")).to_contain_text("parcel")

    page.get_by_role("button", name="Fork from thank").click()
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()

    expect(page.get_by_text("Forked from")).to_be_visible()
    state(page, "succeeded")
    fork = page.url.rpartition("/")[2]
    assert served.ask("GET", f"/v1/jobs/{fork}")["forked_from"] == job


def test_jobs_are_found_and_dealt_with_many_at_a_time(
    page: Page, served: Served, problems: list[str]
) -> None:
    later = {"run_at": "2099-01-01T00:00:00Z", "labels": {"crowd": "a"}}
    ids = [served.submit("hold", "never.go", **later) for _ in range(3)]
    refused = served.submit("refuse", "a reason of its own")
    served.wait_for_end(refused)
    jobs = page.get_by_role("region", name="Jobs", exact=True)
    show(page, served, "jobs")
    expect(jobs).to_contain_text(refused)

    page.get_by_label("Status").select_option("failed")
    expect(jobs).not_to_contain_text(ids[0])
    expect(jobs).to_contain_text("a reason of its own")
    page.get_by_label("Status").select_option("queued")
    find = page.get_by_label("Find jobs")
    page.get_by_role("main").focus()
    page.keyboard.press("/")
    expect(find).to_be_focused()
    find.fill("crowd:a")
    find.press("Enter")
    for job in ids:
        expect(jobs).to_contain_text(job)
    expect(jobs.get_by_role("row")).to_have_count(4)
    # A job that comes in is there by itself.
    ids.append(served.submit("hold", "never.go", **later))
    expect(jobs).to_contain_text(ids[-1])

    page.get_by_role("button", name="Cancel …").click()
    question = page.get_by_role("dialog", name="Cancel 4 jobs?")
    question.get_by_role("button", name="Cancel 4").click()
    expect(page.get_by_text("4 jobs cancelled.")).to_be_visible()
    assert {served.ask("GET", f"/v1/jobs/{job}")["state"] for job in ids} == {"cancelled"}

    find.fill("refus")
    find.press("Enter")
    expect(page.get_by_text("jobs of the kind refuse")).to_be_visible()
    page.get_by_label("Status").select_option("")
    expect(jobs).to_contain_text(refused)
    find.fill(ids[0][:12])
    find.press("Enter")
    expect(jobs).to_contain_text(ids[0])
    find.fill(ids[0])
    find.press("Enter")
    state(page, "cancelled")
    problems.clear()  # that part of an id is no job was found out by asking


def test_what_failed_is_resumed_and_deleted_many_at_a_time(page: Page, served: Served) -> None:
    ids = [served.submit("refuse", "no", labels={"crowd": "b"}) for _ in range(3)]
    for job in ids:
        served.wait_for_end(job)
    show(page, served, "jobs?state=failed&text=crowd:b")
    jobs = page.get_by_role("region", name="Jobs", exact=True)
    expect(jobs.get_by_role("row")).to_have_count(1 + len(ids))

    page.get_by_role("button", name="Resume …").click()
    question = page.get_by_role("dialog", name="Resume 3 jobs?")
    question.get_by_role("button", name="Dismiss").click()
    assert [times_failed(served, job) for job in ids] == [1, 1, 1]
    page.get_by_role("button", name="Resume …").click()
    question.get_by_role("button", name="Resume 3").click()
    expect(page.get_by_text("3 jobs resumed.")).to_be_visible()
    for job in ids:
        assert served.wait_for_end(job)["state"] == "failed"
    assert [times_failed(served, job) for job in ids] == [2, 2, 2]

    page.get_by_role("button", name="Delete …").click()
    question = page.get_by_role("dialog", name="Delete 3 jobs?")
    question.get_by_role("button", name="Delete 3").click()
    expect(page.get_by_text("3 jobs deleted.")).to_be_visible()
    expect(page.get_by_role("heading", name="No matching jobs")).to_be_visible()
    assert served.ask("GET", "/v1/jobs?label=crowd:b")["jobs"] == []


def times_failed(served: Served, job: str) -> int:
    events = served.ask("GET", f"/v1/jobs/{job}/events?limit=1000")["events"]
    return sum(each["data"].get("state") == "failed" for each in events if each["type"] == "state")


def test_the_operator_looks_at_another_tenant(page: Page, served: Served) -> None:
    key = served.make_key("jobs:read", "jobs:write", tenant="umbrella")
    body = {"kind": "parcel", "input": "umbrella"}
    job = served.ask("POST", "/v1/jobs", key, json=body)["id"]
    show(page, served, "jobs")

    page.get_by_label("Tenant").select_option("umbrella")

    page.get_by_role("region", name="Jobs", exact=True).get_by_text(job).click()
    state(page, "succeeded")
    expect(page.get_by_role("region", name="Result")).to_contain_text("parcel with umbrella")
    expect(page.get_by_role("complementary")).to_contain_text("for umbrella")


def test_where_no_documents_are_taken_in_there_is_no_page_for_them(page: Page) -> None:
    expect(page.get_by_role("link", name="Collections")).to_have_count(0)


def test_a_wrong_key_stays_outside(door: Page, problems: list[str]) -> None:
    door.get_by_label("API key").fill("ck_0123456789ab_" + "0" * 64)
    door.get_by_role("button", name="Sign in").click()

    expect(door.get_by_role("alert")).to_be_visible()
    expect(door.get_by_role("navigation", name="Pages")).to_have_count(0)
    problems.clear()


def test_whoever_logs_out_is_outside(page: Page, problems: list[str]) -> None:
    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    problems.clear()


def test_a_page_that_is_open_outlives_the_server(
    page: Page, served: Served, problems: list[str]
) -> None:
    job = served.submit("climb", "outlived.go")
    show(page, served, f"jobs/{job}")
    log = page.get_by_role("log")
    expect(log).to_contain_text("the first is done")

    served.stop(signal.SIGKILL)
    expect(page.get_by_text("The server does not respond")).to_be_visible()
    served.start()

    expect(page.get_by_text("The server does not respond")).to_have_count(0)
    # What it ran is taken up after its last step, and told on a page that nobody has touched.
    expect(log).to_contain_text("running, attempt 2")
    state(page, "running")
    expect(log).not_to_contain_text("the second is done")
    served.open_gate("outlived.go")
    expect(log).to_contain_text("the second is done")
    state(page, "succeeded")
    expect(page.get_by_role("region", name="Result")).to_contain_text("outlived.go")
    steps = served.ask("GET", f"/v1/jobs/{job}/steps")["steps"]
    assert [(step["result"], step["attempts"]) for step in steps] == [("first", 1), ("second", 1)]
    problems.clear()


def test_a_diagram_is_drawn_beside_its_source(page: Page, served: Served) -> None:
    show(page, served, "try?kind=render")
    page.get_by_label("The source").fill("flowchart LR\n  a[Alpha] --> b[Beta]")
    page.get_by_label("The source").press("Control+Enter")

    picture = page.get_by_role("img", name="diagram.svg")
    expect(picture).to_be_visible()
    assert str(picture.get_attribute("src")).startswith("blob:")
    assert picture.evaluate("image => image.naturalWidth") > 20


def test_the_overview_tells_of_queues_and_workers(page: Page, served: Served) -> None:
    job = served.submit("hold", "seen.go")
    served.wait_for_end(served.submit("refuse", "no"))
    show(page, served, "overview")

    expect(page.get_by_role("img", name=re.compile("jobs finished, [1-9]"))).to_be_visible()
    workers = page.get_by_role("region", name="Workers")
    expect(workers.get_by_title(job)).to_be_visible()
    queues = page.get_by_role("region", name="Queues")
    row = queues.get_by_role("row", name=re.compile("^parcels"))
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).not_to_contain_text("paused")
    served.open_gate("seen.go")


def test_what_a_webhook_did_not_take_is_sent_again(page: Page, served: Served) -> None:
    with receiver() as told:
        told.status = 500
        job = served.submit("parcel", "coat", webhook={"url": told.url})
        show(page, served, f"jobs/{job}")
        deliveries = page.get_by_role("region", name="Webhook deliveries")
        own = deliveries.get_by_role("row").filter(has_text="job webhook")
        expect(own).to_contain_text("500")

        told.status = 204
        own.get_by_role("button", name="Send again").click()

        expect(own).to_contain_text("delivered")

        show(page, served, "webhooks")
        page.get_by_role("button", name="Create webhook").click()
        page.get_by_role("dialog").get_by_label("URL").fill(told.url)
        page.get_by_role("dialog").get_by_role("button", name="Create").click()
        secret = page.get_by_role("dialog", name="Webhook secret, shown once")
        expect(secret).to_contain_text("whsec_")
        secret.get_by_role("button", name="Done").click()
        page.get_by_role("link", name=told.url).click()
        served.wait_for_end(served.submit("parcel", "hat"))
        expect(deliveries).to_contain_text("delivered")
        page.get_by_role("button", name="Delete").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("link", name=told.url)).to_have_count(0)


def test_schedules_are_made_run_and_deleted(page: Page, served: Served) -> None:
    show(page, served, "schedules")
    page.get_by_role("button", name="Create schedule").click()
    made = page.get_by_role("dialog")
    made.get_by_label("Name").fill("nightly")
    made.get_by_label("Kind").select_option("parcel")
    made.get_by_label("When").fill("0 3 * * *")
    made.get_by_label("Input").fill('"coat"')
    made.get_by_role("button", name="Create").click()
    row = page.get_by_role("row", name=re.compile("^nightly"))
    expect(row).to_contain_text("0 3 * * *")

    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Run now").click()
    state(page, "succeeded")
    show(page, served, "schedules")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)


def test_a_key_is_made_shown_once_and_revoked(page: Page, served: Served) -> None:
    show(page, served, "keys")
    page.get_by_role("button", name="Create key").click()
    made = page.get_by_role("dialog", name="Create a key")
    made.get_by_label("Tenant").fill("acme")
    made.get_by_label("jobs:read").check()
    made.get_by_label("Description").fill("a trial")
    made.get_by_role("button", name="Create").click()
    shown = page.get_by_role("dialog", name="Your new key, shown once")
    key = shown.locator("code").inner_text()
    assert served.ask("GET", "/v1/server", key)["caller"]["tenant"] == "acme"
    shown.get_by_role("button", name="Done").click()

    row = page.get_by_role("row", name=re.compile("a trial"))
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    expect(page.get_by_role("region", name="Tenants")).to_contain_text("acme")


def test_the_audit_log_says_who_changed_what(page: Page, served: Served) -> None:
    mine = str(served.ask("GET", "/v1/server")["caller"]["key_id"])
    made = served.ask("POST", "/v1/keys", json={"scopes": ["jobs:read"], "tenant": "audited"})
    served.ask("DELETE", f"/v1/keys/{made['id']}")
    every = {"kind": "parcel", "input": "coat", "every_s": 86_400}
    for number in range(55):
        served.ask("PUT", f"/v1/schedules/audited-{number}", json=every)
    show(page, served, "audit")
    log = page.get_by_role("region", name="Audit log")
    newest = log.get_by_role("row").nth(1)
    expect(newest).to_contain_text("schedule audited-54")
    expect(newest).to_contain_text(mine)
    log.get_by_role("button", name="Older").click()
    expect(log).to_contain_text("Page 2")
    expect(log).to_contain_text("audited-4")

    page.get_by_label("Resource").select_option("key")
    expect(log).not_to_contain_text("audited-")
    page.get_by_label("Action").select_option("revoke")
    page.get_by_label("Tenant").fill("audited")
    page.get_by_label("Tenant").press("Enter")
    expect(log.get_by_role("row")).to_have_count(2)
    expect(log.get_by_role("row").nth(1)).to_contain_text(made["id"])
    page.get_by_label("Actor").fill("cli")
    page.get_by_label("Actor").press("Enter")
    expect(log).to_contain_text("No matching entries")
    page.get_by_role("button", name="Show all").click()
    expect(log.get_by_role("row").nth(1)).to_contain_text("audited-54")
    for number in range(55):
        served.ask("DELETE", f"/v1/schedules/audited-{number}")
