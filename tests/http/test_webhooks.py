"""`/v1/webhooks`, and the webhook of a job."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from standardwebhooks import Webhook

from coatcheck.engine.engine import Engine
from coatcheck.model.webhook import TYPES
from tests.http.arrange import NOW_TEXT, LogLines, StoredJobs, Submit

pytestmark = pytest.mark.anyio

URL = "https://93.184.216.34/hook"
PLACE = "/v1/webhooks"
ENDS = ["job.cancelled", "job.failed", "job.succeeded"]


def refusal(answer: httpx2.Response, status: int) -> str:
    """Return the code of a problem."""
    assert answer.status_code == status, answer.text
    return str(answer.json()["type"]).removeprefix("urn:coatcheck:")


async def create(http: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await http.post(PLACE, json={"url": URL, **body})
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


async def told(http: httpx2.AsyncClient, submit: Submit) -> str:
    """Have a job end, and return its id."""
    job = await submit("echo", 1)
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    return str(job["id"])


async def test_a_webhook_is_made_with_a_secret_that_is_shown_once(
    http: httpx2.AsyncClient,
) -> None:
    made = await http.post(PLACE, json={"url": URL, "description": "the shop"})
    body = made.json()
    path = f"{PLACE}/{body['id']}"
    assert (made.status_code, made.headers["Location"]) == (201, path)
    assert made.headers["Cache-Control"] == "no-store"
    Webhook(body.pop("secret"))
    assert body == {
        "id": body["id"],
        "url": URL,
        "events": ENDS,
        "description": "the shop",
        "enabled": True,
        "failing_since": None,
        "disabled_at": None,
        "disabled_why": None,
        "created_at": NOW_TEXT,
        "links": {"self": path, "deliveries": f"{path}/deliveries"},
    }
    for read in (path, PLACE, f"{path}/deliveries"):
        assert "secret" not in (await http.get(read)).text
    assert (await http.get(path)).json() == body


async def test_webhooks_are_listed_in_pages(http: httpx2.AsyncClient) -> None:
    made = [(await create(http))["id"] for _ in range(3)]
    first = (await http.get(PLACE, params={"limit": 2})).json()
    rest = (await http.get(PLACE, params={"cursor": first["next_cursor"]})).json()
    found = [each["id"] for each in (*first["webhooks"], *rest["webhooks"])]
    assert (found, rest["next_cursor"]) == (made, None)


async def test_a_webhook_is_changed_disabled_enabled_deleted(http: httpx2.AsyncClient) -> None:
    path = f"{PLACE}/{(await create(http))['id']}"
    changed = await http.put(path, json={"url": "http://93.184.216.34/x", "events": ["job.failed"]})
    assert changed.json()["url"] == "http://93.184.216.34/x"
    assert changed.json()["events"] == ["job.failed"]
    disabled = (await http.post(f"{path}/disable")).json()
    assert (disabled["enabled"], disabled["disabled_why"]) == (False, "disabled by hand")
    assert (await http.post(f"{path}/enable")).json()["enabled"] is True
    assert (await http.delete(path)).status_code == 200
    for method, place in (("GET", path), ("DELETE", path), ("POST", f"{path}/rotate")):
        assert refusal(await http.request(method, place), 404) == "not-found"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"url": 5},
        {"url": URL, "events": []},
        {"url": URL, "events": ["job.sung"]},
        {"url": URL, "description": "x" * 201},
        {"url": URL, "secret": "whsec_mine"},
        {"url": "http://127.0.0.1/"},
        {"url": "http://localhost/"},
        {"url": "http://169.254.169.254/latest/meta-data"},
        {"url": "http://[::1]/"},
        {"url": "http://2130706433/"},
        {"url": "ftp://93.184.216.34/"},
        {"url": "https://user:pass@93.184.216.34/"},
        {"url": "https://93.184.216.34/#x"},
    ],
)
async def test_bad_webhooks_are_refused(http: httpx2.AsyncClient, body: dict[str, Any]) -> None:
    answer = await http.post(PLACE, json=body)
    assert refusal(answer, 422) in ("invalid-payload", "egress-denied")
    assert answer.json()["errors"]
    assert (await http.get(PLACE)).json()["webhooks"] == []


async def test_a_denied_address_has_a_type_of_its_own(http: httpx2.AsyncClient) -> None:
    answer = await http.post(PLACE, json={"url": "http://10.0.0.1/"})
    assert refusal(answer, 422) == "egress-denied"
    assert answer.json()["errors"][0]["pointer"] == "/url"


async def test_there_is_a_limit_to_webhooks(http: httpx2.AsyncClient) -> None:
    for _ in range(50):
        await create(http)
    assert refusal(await http.post(PLACE, json={"url": URL}), 409) == "conflict"


async def test_a_job_names_its_own(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo", 1, webhook={"url": URL, "events": ["job.cancelled"]})
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    [delivery] = (await http.get(f"/v1/jobs/{job['id']}/deliveries")).json()["deliveries"]
    assert delivery == {
        "id": f"{job['id']}.2",
        "message_id": f"msg_{job['id']}_2",
        "type": "job.cancelled",
        "timestamp": NOW_TEXT,
        "job_id": job["id"],
        "webhook": None,
        "state": "pending",
        "attempts": 0,
        "next_at": NOW_TEXT,
        "tries": [],
        "links": {
            "self": f"/v1/webhooks/deliveries/{job['id']}.2",
            "job": f"/v1/jobs/{job['id']}",
        },
    }


@pytest.mark.parametrize(
    ("webhook", "pointer"),
    [
        ({"url": "http://10.0.0.1/"}, "/webhook/url"),
        ({"url": URL, "events": ["job.sung"]}, "/webhook/events/0"),
        ({"events": ["job.failed"]}, "/webhook/url"),
        ({"url": URL, "more": 1}, "/webhook/more"),
        ("http://93.184.216.34/", "/webhook"),
    ],
)
async def test_a_job_whose_webhook_is_wrong_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, webhook: object, pointer: str
) -> None:
    job = {"kind": "echo", "input": 1, "webhook": webhook}
    one = await http.post("/v1/jobs", json=job)
    many = await http.post("/v1/batches", json={"jobs": [{"kind": "echo", "input": 1}, job]})
    for answer, place in ((one, pointer), (many, f"/jobs/1{pointer}")):
        refusal(answer, 422)
        assert answer.json()["errors"][0]["pointer"] == place
    assert await stored_jobs() == []


async def test_jobs_of_a_batch_have_their_own(http: httpx2.AsyncClient) -> None:
    jobs = [{"kind": "echo", "input": 1, "webhook": {"url": f"{URL}/{n}"}} for n in range(3)]
    answer = await http.post("/v1/batches", json={"jobs": jobs})
    for job in answer.json()["jobs"]:
        await http.post(f"/v1/jobs/{job['id']}/cancel")
        found = (await http.get(f"/v1/jobs/{job['id']}/deliveries")).json()["deliveries"]
        assert [each["type"] for each in found] == ["job.cancelled"]


async def test_deliveries_are_listed_in_pages_and_by_state(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    path = f"{PLACE}/{(await create(http))['id']}/deliveries"
    ids = [await told(http, submit) for _ in range(3)]
    first = (await http.get(path, params={"limit": 2})).json()
    rest = (await http.get(path, params={"cursor": first["next_cursor"]})).json()
    found = [each["job_id"] for each in (*first["deliveries"], *rest["deliveries"])]
    assert (found, rest["next_cursor"]) == (ids[::-1], None)
    assert (await http.get(path, params={"state": "failed"})).json()["deliveries"] == []
    for bad in ({"state": "sung"}, {"cursor": "x"}, {"limit": "0"}, {"order": "up"}):
        refusal(await http.get(path, params=bad), 400)


async def test_a_delivery_is_read_and_sent_again(
    http: httpx2.AsyncClient, submit: Submit, engine: Engine
) -> None:
    webhook = await create(http)
    await http.post(f"{PLACE}/{webhook['id']}/disable")
    await http.post(f"{PLACE}/{webhook['id']}/enable")
    job_id = await told(http, submit)
    await http.post(f"{PLACE}/{webhook['id']}/disable")
    await engine.dispatcher.deliver_due()  # calls it off
    path = f"{PLACE}/deliveries/{job_id}.2.{webhook['id']}"
    failed = (await http.get(path)).json()
    assert (failed["state"], failed["next_at"]) == ("failed", None)
    assert [each["error"] for each in failed["tries"]] == ["the webhook is disabled"]
    again = await http.post(f"{path}/redeliver")
    assert (again.status_code, again.json()["state"]) == (202, "pending")
    await engine.dispatcher.deliver_due()
    all_failed = await http.post(f"{PLACE}/{webhook['id']}/redeliver")
    assert (all_failed.status_code, all_failed.json()) == (202, {"deliveries": 1})
    for unknown in ("x", f"{job_id}.9", f"{job_id}.2.{job_id}", "%00", f"{job_id}.2.%00"):
        refusal(await http.get(f"{PLACE}/deliveries/{unknown}"), 404)


async def test_secrets_are_rotated(http: httpx2.AsyncClient) -> None:
    webhook = await create(http)
    rotated = (await http.post(f"{PLACE}/{webhook['id']}/rotate")).json()
    assert rotated["secret"] != webhook["secret"]
    assert rotated["previous_until"] == "2033-05-19T03:33:20.000Z"


async def test_the_secret_of_jobs_own_can_be_read_and_rotated(http: httpx2.AsyncClient) -> None:
    first = (await http.get(f"{PLACE}/secret")).json()
    assert (await http.get(f"{PLACE}/secret")).json() == first
    rotated = (await http.post(f"{PLACE}/secret/rotate")).json()
    assert (await http.get(f"{PLACE}/secret")).json()["secret"] == rotated["secret"]


async def test_deliveries_are_deleted_with_their_job(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await create(http)
    job_id = await told(http, submit)
    receipt = (await http.delete(f"/v1/jobs/{job_id}")).json()
    assert receipt["removed"]["deliveries"] == 1
    refusal(await http.get(f"/v1/jobs/{job_id}/deliveries"), 410)


async def test_what_is_told_is_described(http: httpx2.AsyncClient) -> None:
    described = (await http.get("/openapi.json")).json()
    assert set(described["webhooks"]) == set(TYPES)
    content = described["webhooks"]["job.succeeded"]["post"]["requestBody"]["content"]
    assert content["application/json"]["example"]["type"] == "job.succeeded"


async def test_addresses_and_secrets_are_not_logged(
    http: httpx2.AsyncClient, log_lines: LogLines
) -> None:
    made = await create(http, url=f"{URL}?token=hidden")
    await http.post(f"{PLACE}/{made['id']}/rotate")
    written = str(log_lines())
    assert "webhook created" in written
    assert made["secret"] not in written
    assert "hidden" not in written
