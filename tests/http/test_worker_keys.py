"""A worker's key reads other tenants' jobs only while it holds a lease on them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.http.endpoint import Access, Endpoint
from coatcheck.http.routes import ENDPOINTS
from coatcheck.model.access import Scope
from coatcheck.model.state import State
from coatcheck.store.base import Store
from tests.http.arrange import StoppedClock
from tests.http.kinds import Gate, declare_kinds
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

READABLE = {"getInput", "getSteps", "getStepResult", "listArtifacts", "getArtifact"}
READS = [
    endpoint
    for endpoint in ENDPOINTS
    if endpoint.scope is Scope.READ and endpoint.access is Access.TENANT
]
READS_BY_NAME = {each.name: each for each in READS}
LEASE_BODIES: dict[str, Any] = {
    "heartbeat": None,
    "steps": {"steps": [{"seq": 0, "name": "a", "result": "hushed"}]},
    "progress": {"done": 1},
    "complete": {"result": "forged"},
    "fail": {"code": "no"},
    "release": None,
}


class WorkerKey:
    """A worker with a key of its own."""

    def __init__(self, http: httpx2.AsyncClient, shown: str) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {shown}"}

    async def call(self, method: str, path: str, **sent: Any) -> httpx2.Response:
        return await self._http.request(method, path, headers=self._headers, **sent)

    async def claim(self) -> dict[str, Any]:
        answer = await self.call("POST", "/v1/claims", json={"kinds": ["echo"]})
        [claim] = answer.json()["claims"]
        return dict(claim)

    async def say(self, claim: dict[str, Any], what: str) -> httpx2.Response:
        return await self.call("POST", claim["links"][what], json=LEASE_BODIES[what])

    async def read(self, endpoint: Endpoint, job_id: str) -> httpx2.Response:
        names = {"schedule": "s", "webhook": "w", "delivery": "d", "upload_id": "u"}
        path = endpoint.path.format(job_id=job_id, seq="0", file="a.txt", **names)
        return await self.call("GET", path, params={"tenant": "acme"})


@pytest.fixture
def engine(store: Store, gate: Gate, clock: StoppedClock) -> Engine:
    return Engine(store, declare_kinds(gate).kinds, clock, pepper=lambda: b"a pepper for tests")


async def worker_key(engine: Engine, http: httpx2.AsyncClient, *scopes: str) -> WorkerKey:
    wanted = scopes or (Scope.WORK, Scope.READ)
    _, shown = await engine.authenticator.create_key("default", wanted)
    return WorkerKey(http, shown)


async def submit_for_acme(engine: Engine) -> str:
    job = await engine.submit(Submission("echo", '"hushed"', tenant="acme"))
    return job.id


@pytest.mark.parametrize("endpoint", READS, ids=[each.name for each in READS])
async def test_without_a_lease_nothing_of_another_tenant_is_read(
    engine: Engine, http: httpx2.AsyncClient, endpoint: Endpoint
) -> None:
    mine, other = [await worker_key(engine, http) for _ in range(2)]
    limited = await worker_key(engine, http, "jobs:work:echo", "jobs:read")
    ended = await submit_for_acme(engine)
    done = await mine.claim()
    assert (await mine.say(done, "steps")).status_code == 200
    assert (await mine.say(done, "complete")).status_code == 200
    running = await submit_for_acme(engine)
    await other.claim()
    queued = await submit_for_acme(engine)

    for key in (mine, limited):
        for job_id in (ended, running, queued):
            answer = await key.read(endpoint, job_id)
            assert answer.status_code in (403, 404), answer.text
            assert "hushed" not in answer.text
            assert "forged" not in answer.text
            assert (answer.status_code == 404) is (endpoint.name in READABLE)


async def test_with_a_lease_input_steps_and_artifacts_are_read(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    key = await worker_key(engine, http)
    job_id = await submit_for_acme(engine)
    claim = await key.claim()
    await key.say(claim, "steps")
    found = {each.name: await key.read(each, job_id) for each in READS}

    assert found["getInput"].json() == "hushed"
    assert found["getSteps"].json()["steps"][0]["result"] == "hushed"
    assert found["getStepResult"].json() == "hushed"
    assert found["listArtifacts"].json() == {"artifacts": []}
    read_problem(found["getArtifact"], 404, "not-found")
    assert "no artifact of that name" in found["getArtifact"].text
    for name, answer in found.items():
        if name not in READABLE:
            read_problem(answer, 403, "forbidden")

    await key.say(claim, "complete")
    read_problem(await key.read(READS_BY_NAME["getInput"], job_id), 404, "not-found")


@pytest.mark.parametrize("what", list(LEASE_BODIES))
async def test_a_lease_is_for_the_key_that_claimed_it(
    engine: Engine, http: httpx2.AsyncClient, what: str
) -> None:
    owner, thief = [await worker_key(engine, http) for _ in range(2)]
    job_id = await submit_for_acme(engine)
    claim = await owner.claim()

    read_problem(await thief.say(claim, what), 409, "stale-lease")
    job = await engine.get(job_id, "acme")
    assert (job.state, job.fence, job.progress) == (State.RUNNING, claim["fence"], None)
    assert await engine.steps(job_id, "acme") == []
    assert (await owner.say(claim, what)).status_code == 200


async def test_a_job_that_has_ended_is_not_shown_to_who_guesses_its_fence(
    engine: Engine, http: httpx2.AsyncClient
) -> None:
    owner, thief = [await worker_key(engine, http) for _ in range(2)]
    await submit_for_acme(engine)
    claim = await owner.claim()
    assert (await owner.say(claim, "complete")).json()["result"] == "forged"

    for what in LEASE_BODIES:
        answer = await thief.say(claim, what)
        assert "forged" not in answer.text
        assert answer.status_code in (200, 409)
    assert (await owner.say(claim, "complete")).status_code == 200, "an end told twice is one"


async def test_our_own_workers_jobs_are_nobody_elses(
    engine: Engine, http: httpx2.AsyncClient, claimer: str
) -> None:
    thief = await worker_key(engine, http)
    job_id = await submit_for_acme(engine)
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    path = f"/v1/jobs/{job_id}/leases/{claim.lease.fence}/complete?tenant=acme"
    read_problem(await thief.call("POST", path, json={"result": 1}), 409, "stale-lease")
