"""Keys: who is let in, for what, and for how long."""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette

from coatcheck.engine import auth
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.app import create_http_app
from coatcheck.model.access import Scope
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.store.base import Report
from coatcheck.store.sqlite.access import SQLiteAccess
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.arrange import LogLines, StoppedClock, connect
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem
from tests.http.streams import Stream

pytestmark = pytest.mark.anyio

PEPPER = b"a pepper for tests"
JOB = {"kind": "echo", "input": 1}


class CountedAccess(SQLiteAccess):
    """Counts how often the access state and keys are read."""

    looks = 0
    keys_read = 0

    async def get_state(self) -> Any:
        self.looks += 1
        return await super().get_state()

    async def get_key(self, key_id: str) -> Any:
        self.keys_read += 1
        return await super().get_key(key_id)


class CountedStore(SQLiteStore):
    """A store that counts how often it is asked who may come in."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.access: CountedAccess = CountedAccess(self._writer, self._reader)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[CountedStore]:
    store = CountedStore(tmp_path / "jobs.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: PEPPER)


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine)


@pytest.fixture
async def replica(
    store: SQLiteStore, gate: Gate, clock: StoppedClock
) -> AsyncIterator[httpx2.AsyncClient]:
    """Another server on the same store, with a memory of its own."""
    engine = Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: PEPPER)
    async with connect(create_http_app(engine)) as client:
        yield client


async def make_key(engine: Engine, *scopes: str, tenant: str = "acme", **more: Any) -> str:
    wanted = scopes or (Scope.READ, Scope.WRITE, Scope.CANCEL)
    return (await engine.authenticator.create_key(tenant, wanted, **more))[1]


def with_key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def all_bytes_in(folder: Path) -> bytes:
    """The database, its log, and whatever else lies beside it."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


async def test_a_key_opens_the_door_in_either_header(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    key = await make_key(engine)
    for headers in (with_key(key), {"X-Api-Key": key}, {"Authorization": f"bearer {key}"}):
        assert (await http.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202
        assert (await http.get("/v1/jobs", headers=headers)).status_code == 200


async def test_what_is_no_key_stays_outside(engine: Engine, http: httpx2.AsyncClient) -> None:
    key = await make_key(engine)
    head, id_, secret = key.split("_")
    wrong = [
        "",
        "x",
        key[:-1],
        key + "0",
        key.upper(),
        f"{head}_{id_}_{'0' * len(secret)}",
        f"{head}_{'0' * 12}_{secret}",
        "ck__",
        "ck_\xff_\xff",
    ]
    for given in wrong:
        for headers in ({"Authorization": f"Bearer {given}"}, {"X-Api-Key": given}):
            raw = {name: value.encode("latin-1") for name, value in headers.items()}
            for answer in (
                await http.post("/v1/jobs", json=JOB, headers=raw),  # type: ignore[arg-type]
                await http.get("/v1/jobs", headers=raw),  # type: ignore[arg-type]
            ):
                read_problem(answer, 401, "unauthorized")
                assert secret not in answer.text
    basic = await http.get("/v1/jobs", headers={"Authorization": f"Basic {key}"})
    read_problem(basic, 401, "unauthorized")


async def test_keys_are_compared_in_constant_time_under_the_pepper(
    engine: Engine, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = await make_key(engine)
    compared: list[tuple[bytes, bytes]] = []
    compare = hmac.compare_digest

    def watched(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return compare(one, other)

    monkeypatch.setattr("coatcheck.engine.auth.hmac.compare_digest", watched)
    digest = hmac.digest(PEPPER, key.encode(), "sha256")
    for given in (key, key, key[:-2] + "zz"[:2].replace("z", "0"), "ck_000000000000_" + "0" * 64):
        await http.post("/v1/jobs", json=JOB, headers=with_key(given))
    # The second time the first is remembered, by a hash that nobody else can tell.
    assert len(compared) == 3, "a key that is not there is compared, too"
    assert compared[0] == (digest, digest)


async def test_the_secret_is_nowhere(
    engine: Engine, http: httpx2.AsyncClient, tmp_path: Path, log_lines: LogLines
) -> None:
    admin = await make_key(engine, "admin", tenant="default")
    made = await http.post(
        "/v1/keys", json={"tenant": "acme", "scopes": ["jobs:read"]}, headers=with_key(admin)
    )
    shown = made.json()["key"]
    assert made.status_code == 201
    assert made.headers["cache-control"] == "no-store"
    listed = await http.get("/v1/keys", headers=with_key(admin))
    metrics = await http.get("/metrics", headers=with_key(admin))
    refused = await http.post("/v1/jobs", json=JOB, headers=with_key(shown))
    await http.get("/v1/jobs", headers=with_key(shown[:-1] + "x"))
    for key in (admin, shown):
        secret = key.split("_")[2]
        for text in (listed.text, metrics.text, refused.text, json.dumps(log_lines())):
            assert secret not in text
        assert secret.encode() not in all_bytes_in(tmp_path)
    assert PEPPER not in all_bytes_in(tmp_path)


async def test_a_submit_asks_the_store_nothing_more(
    engine: Engine, http: httpx2.AsyncClient, store: CountedStore
) -> None:
    key = await make_key(engine)
    await http.post("/v1/jobs", json=JOB, headers=with_key(key))
    looks, keys_read = store.access.looks, store.access.keys_read
    for _ in range(10):
        await http.post("/v1/jobs", json=JOB, headers=with_key(key))
    assert (store.access.looks, store.access.keys_read) == (looks, keys_read)


async def test_a_revoked_key_fails_at_once_on_every_replica(
    engine: Engine, http: httpx2.AsyncClient, replica: httpx2.AsyncClient
) -> None:
    key, other = await make_key(engine), await make_key(engine)
    for client in (http, replica):
        for headers in (with_key(key), with_key(other)):
            assert (await client.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202
            assert (await client.get("/v1/jobs", headers=headers)).status_code == 200

    await engine.authenticator.revoke_key(key.split("_")[1])

    before = len((await http.get("/v1/jobs", headers=with_key(other))).json()["jobs"])
    # First the submit, whose server still remembers the key.
    for client in (replica, http):
        read_problem(
            await client.post("/v1/jobs", json=JOB, headers=with_key(key)), 401, "unauthorized"
        )
        read_problem(await client.get("/v1/jobs", headers=with_key(key)), 401, "unauthorized")
    after = (await http.get("/v1/jobs", headers=with_key(other))).json()["jobs"]
    assert len(after) == before
    assert (await replica.post("/v1/jobs", json=JOB, headers=with_key(other))).status_code == 202


async def test_the_first_key_closes_the_door_everywhere(
    engine: Engine, http: httpx2.AsyncClient, replica: httpx2.AsyncClient
) -> None:
    for client in (http, replica):
        assert (await client.post("/v1/jobs", json=JOB)).status_code == 202

    key = await make_key(engine)

    for client in (replica, http):
        read_problem(await client.post("/v1/jobs", json=JOB), 401, "unauthorized")
        answer = await client.post("/v1/jobs", json=JOB, headers=with_key(key))
        assert answer.status_code == 202
    await engine.authenticator.revoke_key(key.split("_")[1])
    read_problem(await replica.get("/v1/jobs"), 401, "unauthorized")


async def test_with_keys_any_host_may_be_asked_for(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    headers = {**with_key(await make_key(engine)), "Host": "jobs.example"}
    assert (await http.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202
    assert (await http.get("/v1/jobs", headers=headers)).status_code == 200


async def test_a_key_expires(engine: Engine, http: httpx2.AsyncClient, clock: StoppedClock) -> None:
    headers = with_key(await make_key(engine, expires_at=clock.now() + 1000))
    assert (await http.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202
    clock.milliseconds += 1000
    read_problem(await http.post("/v1/jobs", json=JOB, headers=headers), 401, "unauthorized")


async def test_what_is_remembered_is_bounded_in_number_and_time(
    engine: Engine,
    http: httpx2.AsyncClient,
    store: CountedStore,
    clock: StoppedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auth, "MOST_REMEMBERED", 2)
    keys = [await make_key(engine) for _ in range(3)]
    for key in keys:
        await http.post("/v1/jobs", json=JOB, headers=with_key(key))
    read = store.access.keys_read
    await http.post("/v1/jobs", json=JOB, headers=with_key(keys[2]))
    assert store.access.keys_read == read
    await http.post("/v1/jobs", json=JOB, headers=with_key(keys[0]))
    assert store.access.keys_read == read + 1
    clock.milliseconds += 300_000
    await http.post("/v1/jobs", json=JOB, headers=with_key(keys[0]))
    assert store.access.keys_read == read + 2


@pytest.mark.parametrize(
    ("status", "code", "type_"),
    [("suspended", 403, "suspended"), ("unpaid", 402, "payment-required")],
)
async def test_a_tenant_that_is_suspended_is_told_so_at_once(
    engine: Engine,
    http: httpx2.AsyncClient,
    replica: httpx2.AsyncClient,
    status: str,
    code: int,
    type_: str,
) -> None:
    headers = with_key(await make_key(engine))
    admin = with_key(await make_key(engine, "admin", tenant="default"))
    assert (await replica.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202

    changed = await http.put("/v1/tenants/acme", json={"status": status}, headers=admin)
    assert (changed.status_code, changed.json()["status"]) == (200, status)

    read_problem(await replica.post("/v1/jobs", json=JOB, headers=headers), code, type_)
    read_problem(await replica.get("/v1/jobs", headers=headers), code, type_)
    await http.put("/v1/tenants/acme", json={"status": "active"}, headers=admin)
    assert (await replica.post("/v1/jobs", json=JOB, headers=headers)).status_code == 202


async def test_scopes_may_be_for_some_kinds_only(  # G37
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    all_ = with_key(await make_key(engine))
    some = with_key(
        await make_key(engine, "jobs:read:echo", "jobs:write:echo", "jobs:cancel:nothing")
    )
    mine = (await http.post("/v1/jobs", json=JOB, headers=some)).json()["id"]
    other = (await http.post("/v1/jobs", json={"kind": "nothing"}, headers=all_)).json()["id"]

    assert (await http.get(f"/v1/jobs/{mine}", headers=some)).status_code == 200
    assert (await http.get("/v1/jobs?kind=echo", headers=some)).status_code == 200
    assert (await http.post(f"/v1/jobs/{other}/cancel", headers=some)).status_code == 200
    batch = {"jobs": [JOB, {"kind": "nothing"}]}
    schedule = {"kind": "nothing", "every_s": 60}
    refused = [
        await http.post("/v1/jobs", json={"kind": "nothing"}, headers=some),
        await http.post("/v1/batches", json=batch, headers=some),
        await http.put("/v1/schedules/a", json=schedule, headers=some),
        await http.get(f"/v1/jobs/{other}", headers=some),
        await http.get(f"/v1/jobs/{other}/events", headers=some),
        await http.delete(f"/v1/jobs/{other}", headers=some),
        await http.post(f"/v1/jobs/{mine}/cancel", headers=some),
        await http.get("/v1/jobs", headers=some),
        await http.get("/v1/jobs?kind=nothing", headers=some),
        await http.post("/v1/resumptions", json={}, headers=some),
    ]
    for answer in refused:
        read_problem(answer, 403, "forbidden")
    assert (await http.put("/v1/schedules/a", json=schedule, headers=all_)).status_code == 201
    ours = {"kind": "echo", "every_s": 60}
    for answer in (
        await http.put("/v1/schedules/a", json=ours, headers=some),
        await http.post("/v1/schedules/a/trigger", headers=some),
    ):
        read_problem(answer, 403, "forbidden")
    assert (await http.put("/v1/schedules/b", json=ours, headers=some)).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"scopes": []},
        {"scopes": ["jobs"]},
        {"scopes": ["jobs:read:"]},
        {"scopes": ["admin:echo"]},
        {"scopes": ["jobs:work"], "tenant": "acme"},
        {"scopes": ["jobs:read"], "tenant": "a b"},
        {"scopes": ["jobs:read"], "expires_at": "2001-01-01T00:00:00Z"},
        {"scopes": ["jobs:read"], "note": "x" * 201},
        {"scopes": ["jobs:read"], "other": 1},
    ],
)
async def test_a_key_that_makes_no_sense_is_not_made(
    engine: Engine, http: httpx2.AsyncClient, body: dict[str, Any]
) -> None:
    admin = with_key(await make_key(engine, "admin", tenant="default"))
    read_problem(await http.post("/v1/keys", json=body, headers=admin), 422, "invalid-payload")
    assert len(await engine.store.access.list_keys()) == 1


async def test_a_tenants_own_admin_has_its_own_keys(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    admin = with_key(await make_key(engine, "admin"))
    await make_key(engine, "jobs:read", tenant="other")
    made = await http.post("/v1/keys", json={"scopes": ["jobs:read"]}, headers=admin)
    assert (made.status_code, made.json()["tenant"]) == (201, "acme")
    listed = (await http.get("/v1/keys", headers=admin)).json()["keys"]
    assert [key["tenant"] for key in listed] == ["acme", "acme"]
    gone = await http.delete(f"/v1/keys/{made.json()['id']}", headers=admin)
    assert (gone.status_code, gone.json()["revoked_at"] is not None) == (200, True)
    mine = await http.get("/v1/tenants/acme", headers=admin)
    assert mine.json()["quotas"]["jobs_waiting"] is None


async def test_usage_is_told_by_hour_and_kind(engine: Engine, http: httpx2.AsyncClient) -> None:
    headers = with_key(await make_key(engine))
    for _ in range(3):
        await http.post("/v1/jobs", json=JOB, headers=headers)
    answer = await http.get("/v1/tenants/acme/usage", headers=headers)
    [used] = answer.json()["usage"]
    assert (used["kind"], used["submitted"], used["input_bytes"]) == ("echo", 3, 3)
    assert used["hour"] == "2033-05-18T03:00:00.000Z"
    wrong = {"since": "2033-05-18T03:00:00Z", "until": "2031-05-18T03:00:00Z"}
    refused = await http.get("/v1/tenants/acme/usage", params=wrong, headers=headers)
    read_problem(refused, 400, "bad-request")


async def test_a_stream_ends_when_its_key_is_revoked_however_much_there_is_to_tell(
    engine: Engine, app: Starlette, claimer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coatcheck.http.jobs.events.HEARTBEAT_S", 0.0)
    key = await make_key(engine)
    job = await engine.submit(Submission("echo", tenant="acme"))
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    async with Stream(app, job.id, authorization=f"Bearer {key}") as stream:
        assert await stream.next_told() is not None
        await engine.authenticator.revoke_key(key.split("_")[1])
        await engine.report(claim.lease, Report(events=(NewJobEvent(EventType.LOG, "{}"),)))
        told = [event.name for event in await stream.rest()]
    assert "log" not in told
    assert "end" not in told
