"""What belongs to another tenant is not there: every call of the table, one by one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.http.app import create_http_app
from coatcheck.http.endpoint import Access, Endpoint
from coatcheck.http.routes import ENDPOINTS
from coatcheck.model.access import Scope
from coatcheck.model.artifact import Artifact
from coatcheck.model.job import Failure
from coatcheck.model.outcome import GaveUp
from coatcheck.model.payload import BlobName
from coatcheck.model.schedule import ScheduleDefinition, Timing
from coatcheck.store.base import JobFilter, Settlement
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.store.webhooks import DeliveryFilter
from tests.http.arrange import NOW, StoppedClock, connect
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

PEPPER = b"a pepper for tests"
EVERYTHING = (Scope.READ, Scope.WRITE, Scope.CANCEL)
URL = "https://93.184.216.34/hook"
# A body that is good for each call that takes one.
BODIES: dict[str, Any] = {
    "submitJob": {"kind": "echo", "input": 1},
    "submitBatch": {"jobs": [{"kind": "echo"}]},
    "resumeJobs": {"state": "failed"},
    "cancelJobs": {"state": "running"},
    "deleteJobs": {"state": "failed"},
    "forkJob": {"from_step": 0},
    "sendEvent": 1,
    "claimJobs": {"kinds": ["echo"]},
    "recordSteps": {"steps": [{"seq": 0, "name": "a"}]},
    "reportProgress": {"done": 1},
    "completeJob": {"result": 1},
    "failJob": {"code": "no", "message": "no"},
    "putSchedule": {"kind": "echo", "every_s": 60},
    "createKey": {"tenant": "acme", "scopes": ["jobs:read"]},
    "createWebhook": {"url": URL},
    "putWebhook": {"url": URL},
    "upload": "a file",
    "signUpload": {"size": 1},
    "limitQueue": {"concurrency": 1},
    "putTenant": {"status": "suspended"},
}
IDS = [f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS]


# The event that tells of the failure: the third, after it was queued and claimed.
FAILED_AT = 3
# What names something that somebody has.
OWNED = ("job_id", "schedule", "key_id", "owner", "webhook", "delivery", "upload_id")


class Acme(NamedTuple):
    """What the other tenant has."""

    ended: str
    running: str
    key_id: str
    webhook: str
    upload: str


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock, tmp_path: Path) -> Engine:
    blobs = Blobs(FileBucket(tmp_path / "blobs"))
    return Engine(store, declare_kinds(gate).kinds, clock, blobs=blobs, pepper=lambda: PEPPER)


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine)


@pytest.fixture
async def acme(engine: Engine, claimer: str) -> Acme:
    """A tenant with a job that has failed, one that runs, a file, a schedule and a key."""
    ended = await engine.submit(Submission("echo", '"hushed"', tenant="acme"))
    running = await engine.submit(Submission("echo", tenant="acme"))
    first, second = (await engine.claim(claimer, ["echo"], 2)).claims
    artifact = Artifact("a.txt", "text/plain", 1, "00", "k", NOW)
    await engine.store.files.reserve_blob(BlobName("acme", second.lease.job_id, "k"), NOW + 9)
    assert await engine.store.files.record_artifact(second.lease, artifact)
    failed = GaveUp(Failure("no", "hushed"))
    webhook, _ = await engine.webhooks.create(WebhookSpec(URL), "hushed", "acme")
    await engine.settle([Settlement(first.lease, failed)])
    upload = (await engine.uploads.receive(b"hushed", tenant="acme")).upload
    timing = Timing(every_ms=60_000)
    await engine.schedules.put(ScheduleDefinition("nightly", "echo", timing=timing), tenant="acme")
    key, _ = await engine.authenticator.create_key("acme", EVERYTHING)
    return Acme(ended.id, running.id, key.id, webhook.id, upload.id)


@pytest.fixture
async def stranger(engine: Engine, app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    """Another tenant, with every scope it can have."""
    _, shown = await engine.authenticator.create_key("other", [Scope.ADMIN])
    async with connect(app) as client:
        client.headers["Authorization"] = f"Bearer {shown}"
        yield client


async def call(
    client: httpx2.AsyncClient, endpoint: Endpoint, acme: Acme, job: str, **options: Any
) -> httpx2.Response:
    names = {"job_id": job, "schedule": "nightly", "key_id": acme.key_id, "owner": "acme"}
    names |= {"webhook": acme.webhook, "upload_id": acme.upload}
    names["delivery"] = f"{acme.ended}.{FAILED_AT}.{acme.webhook}"
    names |= {
        "fence": "1",
        "seq": "0",
        "name": "docs.css",
        "file": "a.txt",
        "kind": "echo",
        "queue": "default",
    }
    path = endpoint.path.format(**names)
    body = BODIES.get(endpoint.name)
    json = {"json": body} if body is not None else {}
    return await client.request(endpoint.method, path, **json, **options)


async def picture(engine: Engine, acme: Acme) -> list[Any]:
    """All that the tenant has, as the store holds it."""
    jobs = await engine.list_jobs(JobFilter("acme", limit=100))
    events = [await engine.store.jobs.list_events("acme", job.id, 0, 100) for job in jobs]
    return [
        jobs,
        events,
        await engine.schedules.page(tenant="acme"),
        await engine.store.access.list_keys("acme"),
        await engine.store.access.get_tenant("acme"),
        await engine.webhooks.page(tenant="acme"),
        await engine.webhooks.deliveries(DeliveryFilter("acme", job_id=jobs[0].id)),
        await engine.webhooks.deliveries(DeliveryFilter("acme", job_id=jobs[1].id)),
        [await engine.store.files.get_upload("acme", acme.upload)],
    ]


def test_every_call_with_a_body_has_one_here() -> None:
    with_body = {endpoint.name for endpoint in ENDPOINTS if endpoint.body is not None}
    assert with_body == set(BODIES)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=IDS)
async def test_nobody_sees_or_changes_what_another_tenant_has(
    engine: Engine, acme: Acme, stranger: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    before = await picture(engine, acme)
    for job in (acme.ended, acme.running):
        answer = await call(stranger, endpoint, acme, job)

        assert "hushed" not in answer.text
        assert acme.ended not in answer.text.replace(f"job {acme.ended}", "")
        names_other = any(f"{{{name}}}" in endpoint.path for name in OWNED)
        if endpoint.access is Access.OPERATOR or endpoint.scope is Scope.WORK:
            read_problem(answer, 403, "forbidden")
        elif (names_other and endpoint.name != "putSchedule") or endpoint.name == "createKey":
            read_problem(answer, 404, "not-found")
        elif endpoint.name == "signUpload":
            read_problem(
                answer, 409, "no-signed-uploads"
            )  # files in a folder have no such addresses
        else:
            assert answer.status_code < 300, answer.text
            assert "acme" not in answer.text
    assert await picture(engine, acme) == before


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=IDS)
async def test_naming_another_tenant_is_for_the_operator(
    engine: Engine, acme: Acme, stranger: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    before = await picture(engine, acme)
    answer = await call(stranger, endpoint, acme, acme.ended, params={"tenant": "acme"})

    if endpoint.access is Access.TENANT:
        read_problem(answer, 403, "forbidden")
    else:
        assert answer.status_code in (400, 403, 404)
    assert await picture(engine, acme) == before


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=IDS)
async def test_every_call_needs_a_key(
    engine: Engine, acme: Acme, http: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    before = await picture(engine, acme)
    answer = await call(http, endpoint, acme, acme.ended)

    if endpoint.path in ("/healthz", "/readyz"):
        assert answer.status_code == 200
        return
    read_problem(answer, 401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert await picture(engine, acme) == before


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=IDS)
async def test_every_call_needs_its_scope(
    engine: Engine, acme: Acme, http: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    others = [scope for scope in Scope if scope not in (endpoint.scope, Scope.ADMIN)]
    _, shown = await engine.authenticator.create_key("default", others)
    http.headers["X-Api-Key"] = shown
    before = await picture(engine, acme)
    answer = await call(http, endpoint, acme, acme.ended)

    if endpoint.scope is None:
        assert answer.status_code == 200
    else:
        read_problem(answer, 403, "forbidden")
    assert await picture(engine, acme) == before


async def test_the_operator_acts_for_any_tenant(
    engine: Engine, acme: Acme, http: httpx2.AsyncClient
) -> None:
    _, shown = await engine.authenticator.create_key("default", [Scope.ADMIN])
    http.headers["X-Api-Key"] = shown

    listed = await http.get("/v1/jobs", params={"tenant": "acme"})
    assert {job["id"] for job in listed.json()["jobs"]} == {acme.ended, acme.running}
    assert (await http.get(f"/v1/jobs/{acme.ended}")).status_code == 404
    ghost = await http.post("/v1/jobs", json={"kind": "echo"}, params={"tenant": "ghost"})
    read_problem(ghost, 404, "not-found")


async def test_a_worker_runs_jobs_of_every_tenant_by_the_links_it_gets(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    job = await engine.submit(Submission("echo", "1", tenant="acme"))
    _, shown = await engine.authenticator.create_key("default", [Scope.WORK])
    http.headers["X-Api-Key"] = shown

    [claim] = (await http.post("/v1/claims", json={"kinds": ["echo"]})).json()["claims"]
    assert claim["tenant"] == "acme"
    assert (await http.post(claim["links"]["heartbeat"])).status_code == 200
    done = await http.post(claim["links"]["complete"], json={"result": 2})
    assert (done.status_code, done.json()["state"]) == (200, "succeeded")
    assert (await engine.get(job.id, "acme")).result == "2"
