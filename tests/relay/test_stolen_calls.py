"""Attacks on a proxied call by a second key of its tenant, and by a second tenant."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest

from coatcheck.crypto.encryption import PREFIX, Keyring
from coatcheck.crypto.pepper import pepper_for
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.relay import socket_folder
from coatcheck.relay.credentials import OWNER
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from tests.relay.conftest import Running, Serve
from tests.relay.test_ownership import client_of, key_of
from tests.relay.upstreams import Got, Script, Service, in_turn, says, service

pytestmark = pytest.mark.anyio

TOKEN = "Bearer canary-token"
BODY = "canary-body"
KIND = "proxy.post-reports"
LATER = {"Prefer": "respond-async"}


class Cast(NamedTuple):
    """A caller, another key of the same tenant, and its admin."""

    server: Running
    up: Service
    caller: httpx2.AsyncClient
    other: httpx2.AsyncClient
    admin: httpx2.AsyncClient

    async def call(self, **headers: str) -> str:
        """Make a call, and return the id of its job."""
        answer = await self.caller.post("/reports/x", content=BODY, headers={**LATER, **headers})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    async def ended(self, job_id: str) -> Job:
        return await self.server.engine.wait(job_id, 30, "acme")

    def tokens(self) -> list[str | None]:
        """The credentials that the service was called with."""
        return [got.header("authorization") for got in self.up.got]


@pytest.fixture
def staged(serve: Serve) -> Any:
    @contextlib.asynccontextmanager
    async def staged(script: Script, *, works: bool = True) -> AsyncIterator[Cast]:
        async with service(script) as up:
            rules = read_rules([{"match": "POST /reports/*", "target": up.url}])
            async with serve(ProxySurface(rules), works=works) as server:
                keys = [await key_of(server.engine, "acme") for _ in range(2)]
                keys.append(await key_of(server.engine, "acme", Scope.ADMIN))
                async with (
                    client_of(server.url, X_Api_Key=keys[0], Authorization=TOKEN) as caller,
                    client_of(server.url, X_Api_Key=keys[1]) as other,
                    client_of(server.url, X_Api_Key=keys[2]) as admin,
                ):
                    yield Cast(server, up, caller, other, admin)

    return staged


async def hang_up(_got: Got, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_copied_credentials_cannot_be_used_by_another_job(staged: Any) -> None:
    async with staged(says(), works=False) as cast:
        engine = cast.server.engine
        source = await engine.get(await cast.call(), "acme")
        stolen = await engine.store.jobs.get_input("acme", source.id)
        assert "canary-token" not in stolen
        # As if a check at an entry point were missing.
        copy = Submission(KIND, stolen, surface="proxy", labels=source.labels, trusted=True)
        made = [await engine.submit(copy._replace(tenant=each)) for each in ("acme", "other")]
        async with cast.server.work():
            assert (await cast.ended(source.id)).state is State.SUCCEEDED
            for each in made:
                job = await engine.wait(each.id, 30, each.tenant)
                assert job.error is not None
                assert (job.state, job.error.code) == (State.FAILED, "credentials-unreadable")
        assert cast.tokens() == [TOKEN]  # by its own job


async def test_fork_by_the_owner_repeats_the_call(staged: Any) -> None:
    async with staged(says(body=b"canary-answer")) as cast:
        first = await cast.call()
        await cast.ended(first)
        fork = await cast.caller.post(f"/v1/jobs/{first}/fork", json={"from_step": 0})
        assert (fork.status_code, fork.json()["surface"]) == (202, "proxy")
        second = str(fork.json()["id"])
        third = await cast.caller.post(f"/v1/jobs/{second}/fork", json={"from_step": 0})
        for job_id in (second, str(third.json()["id"])):
            await cast.ended(job_id)
            for what in ("", "/input", "/result", "/steps", "/events"):
                path = f"/v1/jobs/{job_id}{what}"
                assert (await cast.other.get(path)).status_code == 404
            mine = await cast.caller.get(f"/v1/jobs/{job_id}/result")
            assert mine.content == b"canary-answer"
            assert "canary-answer" not in (await cast.admin.get(f"/v1/jobs/{job_id}")).text
        assert cast.tokens() == [TOKEN] * 3


async def test_fork_with_new_input_has_no_credentials_and_the_same_owner(staged: Any) -> None:
    async with staged(says(body=b"canary-answer")) as cast:
        first = await cast.call()
        await cast.ended(first)
        call = {"method": "POST", "path": "/reports/y"}
        asked = {"from_step": 0, "input": call}
        fork = await cast.caller.post(f"/v1/jobs/{first}/fork", json=asked)
        job_id = str(fork.json()["id"])
        job = await cast.ended(job_id)
        assert "canary-answer" not in (job.result or "")
        assert cast.tokens() == [TOKEN, None]
        assert (await cast.other.get(f"/v1/jobs/{job_id}/result")).status_code == 404
        assert (await cast.caller.get(f"/v1/jobs/{job_id}/result")).content == b"canary-answer"


async def test_fork_with_an_idempotency_key_is_made_once(staged: Any) -> None:
    async with staged(says()) as cast:
        first = await cast.call()
        path, once = f"/v1/jobs/{first}/fork", {"Idempotency-Key": "k"}
        forks = [
            (await cast.caller.post(path, json={"from_step": 0}, headers=once)).json()["id"]
            for _ in range(2)
        ]
        assert forks[0] == forks[1]
        job = await cast.ended(forks[0])
        assert (job.state, cast.tokens()) == (State.SUCCEEDED, [TOKEN] * 2)


async def test_resumed_call_keeps_its_credentials(staged: Any) -> None:
    async with staged(in_turn(hang_up, says())) as cast:
        job_id = await cast.call()
        assert (await cast.ended(job_id)).state is State.FAILED
        for client in (cast.other, cast.admin):
            assert (await client.post(f"/v1/jobs/{job_id}/resume")).status_code == 404
        assert (await cast.caller.post(f"/v1/jobs/{job_id}/resume")).status_code == 202
        assert (await cast.ended(job_id)).state is State.SUCCEEDED
        assert cast.tokens() == [TOKEN, TOKEN]


async def test_another_job_cannot_answer_an_open_connection(staged: Any) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(got: Got, writer: asyncio.StreamWriter) -> None:
        asked.set()
        await go_on.wait()
        await says(body=b"true")(got, writer)

    async with staged(in_turn(slow, says(body=b"forged"))) as cast:
        waiting = asyncio.create_task(cast.caller.post("/reports/x", content=BODY))
        await asyncio.wait_for(asked.wait(), 30)
        [found] = (await cast.admin.get("/v1/jobs")).json()["jobs"]
        fork = await cast.caller.post(f"/v1/jobs/{found['id']}/fork", json={"from_step": 0})
        await cast.ended(fork.json()["id"])
        stored = json.loads(await cast.server.engine.store.jobs.get_input("acme", found["id"]))
        assert len(stored["line"]) == 32
        # As if a check at an entry point were missing.
        call = {"method": "POST", "path": "/reports/y", "line": stored["line"]}
        made = await cast.server.engine.submit(
            Submission(KIND, json.dumps(call), tenant="acme", trusted=True)
        )
        assert (await cast.ended(made.id)).state is State.SUCCEEDED
        assert not waiting.done()
        go_on.set()
        assert (await waiting).content == b"true"


async def test_connection_token_is_never_exposed(staged: Any) -> None:
    async with staged(says(), works=False) as cast:
        waiting = asyncio.create_task(cast.caller.post("/reports/x", content=BODY))
        jobs: list[Any] = []
        async with asyncio.timeout(30):
            while not jobs:
                jobs = (await cast.admin.get("/v1/jobs")).json()["jobs"]
        job_id = jobs[0]["id"]
        shown = (await cast.caller.get(f"/v1/jobs/{job_id}/input")).json()
        folder = socket_folder.find_folder()
        assert folder is not None
        token = socket_folder.make_token(folder, shown["line"], job_id)
        assert token is not None
        worker = await key_of(cast.server.engine, "default", Scope.WORK)
        async with client_of(cast.server.url, Authorization=f"Bearer {worker}") as remote:
            claimed = (await remote.post("/v1/claims", json={"kinds": [KIND]})).text
        assert job_id in claimed
        views = [
            (await cast.caller.get(f"/v1/jobs/{job_id}{what}?wait=0")).text
            for what in ("", "/result")
        ]
        for text in (json.dumps(shown), claimed, *views):
            assert token not in text
            assert "ticket" not in text
        waiting.cancel()


async def test_admin_sees_the_job_but_not_its_payload(staged: Any) -> None:
    async with staged(says(body=b"canary-answer")) as cast:
        job_id = await cast.call()
        await cast.ended(job_id)
        path = f"/v1/jobs/{job_id}"
        for what in ("", "/card"):
            answer = await cast.admin.get(path + what)
            assert answer.status_code == 200
            assert "canary" not in answer.text
        shown = (await cast.admin.get(f"{path}/card")).json()["actions"]
        assert shown == {"cancel": None, "resume": None, "fork": None}
        mine = (await cast.caller.get(f"{path}/card")).json()["actions"]
        assert mine["fork"] == f"{path}/fork"
        for what in ("/input", "/result", "/steps", "/events", "/artifacts", "/deliveries"):
            assert (await cast.admin.get(path + what)).status_code == 404
        fork = await cast.admin.post(f"{path}/fork", json={"from_step": 0})
        assert fork.status_code == 404
        assert (await cast.admin.post(f"{path}/cancel")).status_code == 200
        assert (await cast.admin.delete(path)).status_code == 200


async def test_bulk_cancel_skips_calls_of_others(staged: Any) -> None:
    async with staged(says(), works=False) as cast:
        job_id = await cast.call()
        for client, cancelled in ((cast.other, 0), (cast.admin, 1)):
            done = await client.post("/v1/cancellations", json={"state": "queued"})
            assert (done.status_code, done.json()["jobs"]) == (200, cancelled)
        assert (await cast.ended(job_id)).state is State.CANCELLED


async def test_idempotency_key_does_not_expose_another_callers_response(staged: Any) -> None:
    async with staged(says(body=b"canary-answer")) as cast:
        once = {"Idempotency-Key": "k"}
        for _ in range(2):
            answer = await cast.caller.post("/reports/x", content=BODY, headers=once)
            assert answer.content == b"canary-answer"
        for headers in (once, {**once, "Authorization": "Bearer other"}, {**once, **LATER}):
            answer = await cast.other.post("/reports/x", content=BODY, headers=headers)
            assert answer.status_code == 422
            assert "canary" not in answer.text
        assert len(cast.up.got) == 1


async def test_tenant_webhook_does_not_expose_a_call(staged: Any) -> None:
    told = asyncio.Event()

    async def receive(got: Got, writer: asyncio.StreamWriter) -> None:
        await says()(got, writer)
        if b"job.succeeded" in got.body:
            told.set()

    async with staged(says(body=b"canary-answer")) as cast, service(receive) as receiver:
        engine = cast.server.engine
        await engine.webhooks.create(WebhookSpec(receiver.url), "", "acme")
        delivering = asyncio.create_task(engine.dispatcher.run())
        await cast.ended(await cast.call())
        await asyncio.wait_for(told.wait(), 60)
        delivering.cancel()
        await asyncio.gather(delivering, return_exceptions=True)
        for got in receiver.got:
            assert "canary" not in f"{got.body!r} {got.headers}"


def former(folder: Path, call: dict[str, Any]) -> dict[str, Any]:
    """Return a call with credentials as an earlier version stored it."""
    pepper = pepper_for(Settings(database=f"sqlite:///{folder}/jobs.db")).read_or_make()
    key = hmac.digest(pepper, b"coatcheck relay credentials", "sha256")
    sealed = Keyring({"relay": key}).encrypt(json.dumps([("authorization", TOKEN)]), KIND)
    return {
        **call,
        "credentials": sealed.removeprefix(PREFIX),
        "owned": True,
        "line": {"socket": "0" * 32, "ticket": "0" * 32},
    }


async def test_call_stored_by_an_earlier_version_runs(staged: Any, tmp_path: Path) -> None:
    async with staged(says(body=b"canary-answer"), works=False) as cast:
        engine = cast.server.engine
        labels = (await engine.get(await cast.call(), "acme")).labels
        assert OWNER in labels
        text = json.dumps(former(tmp_path, {"method": "POST", "path": "/reports/old"}))
        stored = Submission(KIND, text, tenant="acme", labels=labels, trusted=True)
        genuine = await engine.submit(stored._replace(surface="proxy"))
        by_hand = await engine.submit(stored)  # a fork, or a job with copied credentials
        async with cast.server.work():
            for job in await engine.list_jobs(JobFilter("acme")):
                await cast.ended(job.id)
            assert (await cast.ended(genuine.id)).state is State.SUCCEEDED
            failed = await cast.ended(by_hand.id)
        assert (failed.error and failed.error.code) == "credentials-unreadable"
        assert cast.tokens() == [TOKEN, TOKEN]
        path = f"/v1/jobs/{genuine.id}/result"
        assert (await cast.caller.get(path)).content == b"canary-answer"
        assert (await cast.other.get(path)).status_code == 404
        async with cast.server.work():
            fork = await cast.caller.post(f"/v1/jobs/{genuine.id}/fork", json={"from_step": 0})
            assert (await cast.ended(fork.json()["id"])).state is State.SUCCEEDED
