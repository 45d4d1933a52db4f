"""The audit trail: every call that changes a resource says who made it, and to whom it shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.egress.policy import EgressPolicy
from coatcheck.engine.audit import DAY_MS, EVERY_S, AuditRetention
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.routes import ENDPOINTS
from coatcheck.model.access import Scope
from coatcheck.model.audit import Action, AuditEntry, Resource
from coatcheck.model.schedule import ScheduleDefinition, Timing
from coatcheck.store.audit import AuditFilter
from coatcheck.store.base import Store
from coatcheck.surfaces.tasks.surface import TaskSurface
from tests.http.arrange import StoppedClock
from tests.http.kinds import Gate, declare_kinds

pytestmark = pytest.mark.anyio

PEPPER = b"a pepper for tests"
HOOK = "https://93.184.216.34/s3cret-path?token=s3cret"
SCHEDULE: dict[str, Any] = {"kind": "echo", "input": "s3cret", "every_s": 3600}
TASK: dict[str, Any] = {"id": "t1", "name": "backup", "command": "echo s3cret"}

# A request for each call that changes a resource. `{webhook}` and `{key}` stand for ids.
CHANGES: dict[str, tuple[Action, Any]] = {
    "createKey": (Action.CREATE_KEY, {"scopes": ["jobs:read"], "note": "s3cret"}),
    "revokeKey": (Action.REVOKE_KEY, None),
    "putTenant": (Action.UPDATE_TENANT, {"quotas": {"jobs_waiting": 5}}),
    "createWebhook": (Action.CREATE_WEBHOOK, {"url": HOOK, "description": "s3cret"}),
    "putWebhook": (Action.UPDATE_WEBHOOK, {"url": f"{HOOK}2"}),
    "enableWebhook": (Action.ENABLE_WEBHOOK, None),
    "disableWebhook": (Action.DISABLE_WEBHOOK, None),
    "rotateWebhook": (Action.ROTATE_WEBHOOK, None),
    "rotateWebhookSecret": (Action.ROTATE_WEBHOOK, None),
    "deleteWebhook": (Action.DELETE_WEBHOOK, None),
    "putSchedule": (Action.CREATE_SCHEDULE, SCHEDULE),
    "pauseSchedule": (Action.PAUSE_SCHEDULE, None),
    "resumeSchedule": (Action.RESUME_SCHEDULE, None),
    "deleteSchedule": (Action.DELETE_SCHEDULE, None),
    "putTask": (Action.CREATE_TASK, TASK),
    "deleteTask": (Action.DELETE_TASK, None),
}
# Calls of the same parts of the API that change no resource: they send, run or check something.
OTHERS = {
    *("redeliver", "redeliverFailed", "triggerSchedule", "executeTask", "validateCommand"),
}
AUDITED_TAGS = {"keys", "tenants", "webhooks", "schedules", "tasks"}


@pytest.fixture
def engine(store: Store, gate: Gate, clock: StoppedClock) -> Engine:
    declared = declare_kinds(gate)
    TaskSurface({}).declare(declared)
    return Engine(store, declared.kinds, clock, pepper=lambda: PEPPER, egress=EgressPolicy())


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine, surfaces=[TaskSurface({})])


def audited_endpoints() -> list[Endpoint]:
    found = [*ENDPOINTS, *TaskSurface({}).endpoints]
    return [each for each in found if each.tag in AUDITED_TAGS and each.method != "GET"]


async def key_for(engine: Engine, tenant: str, *scopes: str) -> dict[str, str]:
    """Make a key; return the headers it comes in and, under `id`, its id."""
    key, shown = await engine.authenticator.create_key(tenant, scopes or [Scope.ADMIN])
    return {"X-Api-Key": shown, "id": key.id}


async def entries(engine: Engine, **fields: Any) -> list[AuditEntry]:
    return await engine.store.audit.list_entries(AuditFilter(**{"limit": 200, **fields}))


class Session:
    """Makes the calls that change resources, each on one that is there."""

    def __init__(self, http: httpx2.AsyncClient, key: dict[str, str]) -> None:
        self._http = http
        self._headers = {"X-Api-Key": key["X-Api-Key"]}

    async def call(self, endpoint: Endpoint, body: Any = None) -> httpx2.Response:
        path = endpoint.path.format(**await self._names(endpoint))
        answer = await self._http.request(endpoint.method, path, json=body, headers=self._headers)
        assert answer.is_success, answer.text
        return answer

    async def _names(self, endpoint: Endpoint) -> dict[str, str]:
        """Make the resources that a path names, and return their ids."""
        make: dict[str, Callable[[], Any]] = {
            "key_id": self._key,
            "webhook": self._webhook,
            "schedule": lambda: self._schedule(endpoint),
            "task_id": self._task,
            "owner": self._tenant,
        }
        named = [name for name in make if f"{{{name}}}" in endpoint.path]
        return {name: await make[name]() for name in named}

    async def _post(self, path: str, body: Any, method: str = "POST") -> Any:
        answer = await self._http.request(method, path, json=body, headers=self._headers)
        assert answer.is_success, answer.text
        return answer.json()

    async def _key(self) -> str:
        return str((await self._post("/v1/keys", {"scopes": ["jobs:read"]}))["id"])

    async def _webhook(self) -> str:
        return str((await self._post("/v1/webhooks", {"url": HOOK}))["id"])

    async def _schedule(self, endpoint: Endpoint) -> str:
        if endpoint.method != "PUT":
            await self._post("/v1/schedules/nightly", SCHEDULE, "PUT")
        if endpoint.name == "resumeSchedule":
            await self._post("/v1/schedules/nightly/pause", None)
        return "nightly"

    async def _task(self) -> str:
        return str((await self._post("/api/tasks", TASK, "PUT"))["id"])

    async def _tenant(self) -> str:
        await self._post("/v1/tenants/acme", {}, "PUT")
        return "acme"


def test_every_call_that_changes_a_resource_is_known_here() -> None:
    """A new one needs an action, and a request in the table above."""
    names = {endpoint.name for endpoint in audited_endpoints()}
    assert names == CHANGES.keys() | OTHERS


@pytest.mark.parametrize("endpoint", audited_endpoints(), ids=lambda each: each.name)
async def test_a_change_is_recorded_with_the_key_that_made_it(
    engine: Engine, http: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    if endpoint.name in OTHERS:
        return
    action, body = CHANGES[endpoint.name]
    key = await key_for(engine, "default")
    await Session(http, key).call(endpoint, body)
    newest = (await entries(engine))[0]
    assert (newest.action, newest.actor) == (action, key["id"])
    assert newest.resource == action.resource
    assert newest.tenant == ("acme" if action.resource == Resource.TENANT else "default")
    assert newest.at == engine.clock.now()
    everything = json.dumps(await entries(engine))
    assert "s3cret" not in everything
    assert "whsec" not in everything
    assert key["X-Api-Key"] not in everything


async def test_a_change_of_a_resource_names_what_changed(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    key = await key_for(engine, "default")
    headers = {"X-Api-Key": key["X-Api-Key"]}
    for body in (TASK, {**TASK, "command": "echo other"}):
        await http.put("/api/tasks", json=body, headers=headers)
    later = {**SCHEDULE, "every_s": 7200}
    for schedule in (SCHEDULE, later):
        await http.put("/v1/schedules/nightly", json=schedule, headers=headers)
    updates = [each for each in await entries(engine) if str(each.action).endswith(".update")]
    assert [json.loads(each.detail) for each in updates] == [
        {"changed": ["timing"]},
        {"changed": ["command"]},
    ]
    # The same again changes nothing.
    await http.put("/v1/schedules/nightly", json=later, headers=headers)
    assert len([each for each in await entries(engine) if each.resource == "schedule"]) == 2


async def test_what_is_refused_leaves_no_entry(engine: Engine, http: httpx2.AsyncClient) -> None:
    key = await key_for(engine, "default")
    headers = {"X-Api-Key": key["X-Api-Key"]}
    before = await entries(engine)
    refused = [
        await http.put("/v1/schedules/nightly", json={"kind": "nothing"}, headers=headers),
        await http.delete("/v1/schedules/none", headers=headers),
        await http.delete("/v1/keys/000000000000", headers=headers),
        await http.post("/v1/webhooks", json={"url": "http://127.0.0.1/"}, headers=headers),
        await http.delete("/api/tasks/none", headers=headers),
        await http.post("/v1/keys", json={"scopes": ["jobs:read"]}),
    ]
    assert {answer.status_code for answer in refused} <= {401, 404, 422}
    assert await entries(engine) == before


async def test_without_keys_the_actor_is_anonymous(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    await http.put("/v1/schedules/nightly", json=SCHEDULE)
    [entry] = await entries(engine)
    assert entry.actor == "anonymous"
    listed = (await http.get("/v1/audit")).json()
    assert [each["action"] for each in listed["entries"]] == ["schedule.create"]


async def test_a_declared_schedule_is_the_apps(engine: Engine) -> None:
    timing = Timing(None, 3_600_000, None, "UTC")
    declared = ScheduleDefinition(name="every", kind="echo", timing=timing, input="1")
    await engine.schedules.register([declared])
    await engine.schedules.register([declared])
    await engine.schedules.register([])
    found = [(each.actor, str(each.action)) for each in await entries(engine)]
    assert found == [("app", "schedule.delete"), ("app", "schedule.create")]


async def test_a_tenants_administrator_sees_that_tenant_alone(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    operator = await key_for(engine, "default")
    admin = await key_for(engine, "acme")
    await key_for(engine, "other")
    await http.put(
        "/v1/schedules/nightly?tenant=acme",
        json=SCHEDULE,
        headers={"X-Api-Key": operator["X-Api-Key"]},
    )

    async def seen(key: dict[str, str], query: str = "") -> httpx2.Response:
        return await http.get(f"/v1/audit{query}", headers={"X-Api-Key": key["X-Api-Key"]})

    own = (await seen(admin)).json()["entries"]
    assert {each["tenant"] for each in own} == {"acme"}
    assert [(each["action"], each["actor"]) for each in own] == [
        ("schedule.create", operator["id"]),
        ("key.create", "anonymous"),
        ("tenant.create", "anonymous"),
    ]
    assert (await seen(admin, "?tenant=acme")).json()["entries"] == own
    assert (await seen(admin, "?tenant=other")).status_code == 404
    assert (await seen(operator, "?tenant=acme")).json()["entries"] == own
    tenants = {each["tenant"] for each in (await seen(operator)).json()["entries"]}
    assert tenants == {"default", "acme", "other"}
    reader = await key_for(engine, "acme", Scope.READ, Scope.WRITE, Scope.CANCEL)
    assert (await seen(reader)).status_code == 403


async def test_the_trail_comes_in_pages_and_by_what_is_asked_for(
    engine: Engine, http: httpx2.AsyncClient, clock: StoppedClock
) -> None:
    key = await key_for(engine, "default")
    headers = {"X-Api-Key": key["X-Api-Key"]}
    for number in range(5):
        clock.milliseconds += 1000
        await http.put(f"/v1/schedules/s{number}", json=SCHEDULE, headers=headers)

    async def read(**query: Any) -> Any:
        return (await http.get("/v1/audit", params=query, headers=headers)).json()

    async def ids(**query: Any) -> list[str]:
        return [each["resource_id"] for each in (await read(**query))["entries"]]

    first = await read(limit=4)
    rest = await read(limit=4, cursor=first["next_cursor"])
    whole = await read()
    assert first["entries"] + rest["entries"] == whole["entries"]
    assert (rest["next_cursor"], len(whole["entries"])) == (None, 7)
    assert whole["entries"][0] == {
        "id": whole["entries"][0]["id"],
        "at": "2033-05-18T03:33:25.000Z",
        "tenant": "default",
        "actor": key["id"],
        "action": "schedule.create",
        "resource": "schedule",
        "resource_id": "s4",
        "detail": {},
    }
    assert await ids(resource="schedule") == ["s4", "s3", "s2", "s1", "s0"]
    assert await ids(action="key.create") == [key["id"]]
    assert await ids(actor="anonymous", resource="tenant") == ["default"]
    assert await ids(resource_id="s2") == ["s2"]
    times = {"since": "2033-05-18T03:33:22.000Z", "until": "2033-05-18T03:33:24.000Z"}
    assert await ids(**times) == ["s2", "s1"]
    page = await read(**times, limit=1)
    assert [each["resource_id"] for each in page["entries"]] == ["s2"]
    assert await ids(**times, cursor=page["next_cursor"]) == ["s1"]


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=201",
        "cursor=x",
        "action=nothing",
        "resource=job",
        "since=yesterday",
        "actor=a%00b",
        "resource_id=",
        "unknown=1",
    ],
)
async def test_a_bad_query_is_refused(http: httpx2.AsyncClient, query: str) -> None:
    assert (await http.get(f"/v1/audit?{query}")).status_code == 400


async def test_entries_go_with_their_retention(engine: Engine, clock: StoppedClock) -> None:
    retention = AuditRetention(engine.store, clock, days=400)
    await engine.authenticator.put_tenant("old")
    clock.milliseconds += 399 * DAY_MS
    await engine.authenticator.put_tenant("new")
    await retention.sweep()
    assert [each.resource_id for each in await entries(engine)] == ["new", "old"]
    clock.milliseconds += DAY_MS + 1
    await retention.sweep()
    assert [each.resource_id for each in await entries(engine)] == ["new"]
    clock.milliseconds += 400 * DAY_MS + round(EVERY_S * 1000)
    await retention.sweep()
    assert await entries(engine) == []


# --- last_used_at


async def test_the_use_of_a_key_is_written_behind_the_requests(
    engine: Engine, http: httpx2.AsyncClient, clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    touch = engine.store.access.touch_keys

    async def counted(uses: Any, apart_ms: int) -> None:
        written.append(len(uses))
        await touch(uses, apart_ms)

    monkeypatch.setattr(engine.store.access, "touch_keys", counted)
    admin, other = await key_for(engine, "default"), await key_for(engine, "acme", Scope.READ)
    headers = {"X-Api-Key": admin["X-Api-Key"]}

    async def last_used() -> dict[str, str | None]:
        listed = (await http.get("/v1/keys", headers=headers)).json()["keys"]
        return {key["id"]: key["last_used_at"] for key in listed}

    assert await last_used() == {admin["id"]: None, other["id"]: None}
    for _ in range(20):
        assert (await http.get("/v1/jobs", headers={"X-Api-Key": other["X-Api-Key"]})).is_success
    bad = {"X-Api-Key": f"{other['X-Api-Key'][:-4]}0000"}
    assert (await http.get("/v1/jobs", headers=bad)).status_code == 401
    assert written == []
    await engine.authenticator.key_uses.flush()
    await engine.authenticator.key_uses.flush()
    assert written == [2]
    began = "2033-05-18T03:33:20.000Z"
    assert await last_used() == {admin["id"]: began, other["id"]: began}
    clock.milliseconds += 30_000
    assert (await http.get("/v1/jobs", headers=headers)).is_success
    await engine.authenticator.key_uses.flush()
    assert (await last_used())[admin["id"]] == began, "once a minute is enough"
    clock.milliseconds += 30_000
    assert (await http.get("/v1/jobs", headers=headers)).is_success
    await engine.authenticator.key_uses.flush()
    assert await last_used() == {admin["id"]: "2033-05-18T03:34:20.000Z", other["id"]: began}
