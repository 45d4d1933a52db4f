"""Surfaces: doors of another shape, for which everything holds that holds for the canonical API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from examples.own_surface import Reports
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.errors import ConfigurationError
from coatcheck.http.app import create_http_app
from coatcheck.http.endpoint import JSON, Access, Endpoint, EndpointResponse
from coatcheck.model.job import Job
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import StoppedClock, connect
from tests.http.kinds import Gate

pytestmark = pytest.mark.anyio

OBJECT = {JSON: {"type": "object"}}


class Shown(Reports):
    """Reports that are also shown where several surfaces show theirs, and an open page."""

    shows_jobs = True

    def __init__(self) -> None:
        self.endpoints = (
            *Reports.endpoints,
            Endpoint(
                "GET",
                "/reports/about/{topic}",
                about,
                "aboutReports",
                "About",
                "reports",
                {200: EndpointResponse("Words.", OBJECT)},
                access=Access.PUBLIC,
            ),
        )

    async def show_job(self, request: Request, job: Job) -> Response:
        return JSONResponse({"number": job.id})


async def about(request: Request) -> Response:
    return JSONResponse({"topic": request.path_params["topic"]})


@pytest.fixture
def engine(store: SQLiteStore, gate: Gate, clock: StoppedClock) -> Engine:
    app = App()
    app.use(Shown())
    app.job("echo")(echo)
    return Engine(store, app.kinds, clock, pepper=lambda: b"p" * 32)


def echo(_ctx: Any, value: Any) -> Any:
    return value


@pytest.fixture
def app(engine: Engine) -> Starlette:
    return create_http_app(engine, surfaces=[Shown()])


@pytest.fixture
async def http(app: Starlette) -> AsyncIterator[httpx2.AsyncClient]:
    async with connect(app) as client:
        yield client


async def order(http: httpx2.AsyncClient, **headers: str) -> str:
    answer = await http.post("/reports", json={"year": 2026}, headers=headers)
    assert answer.status_code == 202, answer.text
    assert answer.json()["status"] == "BUSY"
    return str(answer.json()["ticket"])


async def test_a_job_goes_in_and_out_in_the_words_of_its_surface(
    http: httpx2.AsyncClient, worker: Worker
) -> None:
    ticket = await order(http)
    canonical = (await http.get(f"/v1/jobs/{ticket}?wait=60")).json()
    assert (canonical["surface"], canonical["kind"]) == ("reports", "report")
    shown = (await http.get(f"/reports/{ticket}")).json()
    assert shown == {"ticket": ticket, "status": "READY", "report": "Nothing happened in 2026."}


async def test_a_repeated_order_is_one_job(http: httpx2.AsyncClient) -> None:
    first = await order(http, **{"Idempotency-Key": "once"})
    assert await order(http, **{"Idempotency-Key": "once"}) == first
    other = await http.post("/reports", json={"year": 1}, headers={"Idempotency-Key": "once"})
    assert (other.status_code, list(other.json())) == (422, ["oops"])


@pytest.mark.parametrize(
    ("method", "path", "request_", "status"),
    [
        ("POST", "/reports", {"content": b"{", "headers": {"content-type": JSON}}, 400),
        ("POST", "/reports", {"json": {}}, 400),
        ("POST", "/reports?x=1", {"json": {"year": 1}}, 400),
        ("POST", "/reports", {"content": b"x", "headers": {"content-type": "text/plain"}}, 415),
        ("GET", "/reports/none", {}, 404),
        ("GET", "/reports/none/of/them", {}, 404),
        ("PUT", "/reports", {}, 405),
        ("GET", "/reports", {"headers": {"host": "elsewhere.example"}}, 403),
    ],
)
async def test_whoever_refuses_does_it_in_the_words_of_the_surface(
    http: httpx2.AsyncClient, method: str, path: str, request_: dict[str, Any], status: int
) -> None:
    answer = await http.request(method, path, **request_)
    assert (answer.status_code, list(answer.json())) == (status, ["oops"])
    assert "x-correlation-id" in answer.headers


async def test_other_paths_keep_the_canonical_shape(http: httpx2.AsyncClient) -> None:
    for path in ("/v1/jobs/none", "/reportsx", "/none"):
        answer = await http.get(path)
        assert answer.headers["content-type"] == "application/problem+json"


async def test_a_job_of_another_surface_is_not_found(http: httpx2.AsyncClient) -> None:
    job = (await http.post("/v1/jobs", json={"kind": "echo", "input": 1})).json()
    assert (await http.get(f"/reports/{job['id']}")).status_code == 404


async def test_a_job_is_shown_by_the_surface_it_came_in_by(http: httpx2.AsyncClient) -> None:
    ticket = await order(http)
    assert (await http.get(f"/jobs/{ticket}")).json() == {"number": ticket}


async def test_a_shared_address_knows_only_jobs_of_surfaces(http: httpx2.AsyncClient) -> None:
    job = (await http.post("/v1/jobs", json={"kind": "echo", "input": 1})).json()
    for job_id in (job["id"], "none"):
        answer = await http.get(f"/jobs/{job_id}")
        assert (answer.status_code, answer.json()) == (404, {"error": "Job not found"})


async def test_keys_scopes_and_tenants_hold_for_a_surface(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    keys = {
        name: (await engine.authenticator.create_key(tenant, grants))[1]
        for name, tenant, grants in (
            ("mine", "a", ["jobs:read", "jobs:write"]),
            ("reader", "a", ["jobs:read"]),
            ("other", "b", ["jobs:read", "jobs:write"]),
            ("echoes", "a", ["jobs:write:echo"]),
        )
    }
    nobody = await http.post("/reports", json={"year": 1})
    assert (nobody.status_code, list(nobody.json())) == (401, ["oops"])

    async def ask(key: str, method: str, path: str, **body: Any) -> httpx2.Response:
        return await http.request(method, path, headers={"X-Api-Key": keys[key]}, **body)

    made = await ask("mine", "POST", "/reports", json={"year": 1})
    ticket = made.json()["ticket"]
    assert (await ask("reader", "GET", f"/reports/{ticket}")).status_code == 200
    assert (await ask("reader", "POST", "/reports", json={"year": 1})).status_code == 403
    assert (await ask("echoes", "POST", "/reports", json={"year": 1})).status_code == 403
    for path in (f"/reports/{ticket}", f"/jobs/{ticket}"):
        assert (await ask("other", "GET", path)).status_code == 404


async def test_what_a_surface_opens_needs_no_key(http: httpx2.AsyncClient, engine: Engine) -> None:
    await engine.authenticator.create_key("a", ["jobs:read"])
    assert (await http.get("/reports/about/us")).json() == {"topic": "us"}
    assert (await http.get("/reports/about/us/all")).status_code == 401
    assert (await http.get("/reports/none")).status_code == 401


async def test_its_calls_are_described(http: httpx2.AsyncClient) -> None:
    described = (await http.get("/openapi.json")).json()["paths"]
    assert {"/reports", "/reports/{job_id}", "/jobs/{job_id}"} <= described.keys()
    refused = described["/reports"]["post"]["responses"]["400"]["content"]
    assert list(refused) == [JSON]


async def test_the_same_call_twice_is_refused(engine: Engine) -> None:
    class Twice(Reports):
        name = "twice"

    with pytest.raises(ConfigurationError, match="POST /reports is declared twice"):
        create_http_app(engine, surfaces=[Reports(), Twice()])


@pytest.mark.parametrize("name", ["reports", "api", "no name"])
def test_a_name_that_is_taken_or_none_is_refused(name: str) -> None:
    app = App()
    app.use(Reports())
    other = Reports()
    other.name = name
    with pytest.raises(ConfigurationError, match="surface"):
        app.use(other)
