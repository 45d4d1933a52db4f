"""The middleware around an app, inside one, below a prefix, and without a lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import Depends, FastAPI, Request, Response
from fastapi.security import HTTPBearer
from starlette.middleware.cors import CORSMiddleware
from starlette.testclient import TestClient

from coatcheck import Coatcheck
from coatcheck.clock import SystemClock
from coatcheck.engine.auth import Authenticator
from coatcheck.errors import ConfigurationError
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.store import SQLiteStore

from .asgi_client import open_client

pytestmark = pytest.mark.anyio
LATER = {"Prefer": "respond-async"}


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def api_of(ran: list[str]) -> FastAPI:
    api = FastAPI()

    @api.post("/render")
    async def render(pages: int = 1) -> dict[str, int]:
        ran.append("render")
        return {"pages": pages}

    return api


async def jobs_in(folder: Path) -> int:
    store = SQLiteStore(folder / "jobs.db")
    await store.open()
    try:
        return len(await store.jobs.list_jobs(JobFilter("default")))
    finally:
        await store.close()


async def test_nested_middleware_makes_one_job(tmp_path: Path, database: str) -> None:
    ran: list[str] = []
    options: dict[str, Any] = {"database": database, "wait": "30s"}
    inner = Coatcheck(
        api_of(ran), ["POST /render"], name="inner", authorize="fastapi-dependencies", **options
    )
    app = Coatcheck(inner, ["POST /render"], authorize="none", **options)
    async with open_client(app) as client:
        answer = await client.post("/render?pages=3")
        assert (answer.json(), ran) == ({"pages": 3}, ["render"])
    assert await jobs_in(tmp_path) == 1


async def test_added_middleware_does_not_intercept_its_own_calls(
    tmp_path: Path, database: str
) -> None:
    ran: list[str] = []
    api = api_of(ran)
    api.add_middleware(
        Coatcheck,
        routes=["POST /render"],
        database=database,
        wait="30s",
        authorize="fastapi-dependencies",
    )
    api.add_middleware(CORSMiddleware, allow_origins=["https://page.example"])

    @api.middleware("http")
    async def outside(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        ran.append("outside")
        assert request.app is api
        return await call_next(request)

    async with open_client(api) as client:
        answer = await client.post("/render?pages=3", headers={"Origin": "https://page.example"})
        assert answer.json() == {"pages": 3}
        assert answer.headers["Access-Control-Allow-Origin"] == "https://page.example"
        later = await client.post("/render", headers=LATER | {"Origin": "https://page.example"})
        assert later.status_code == 202
        assert later.headers["Access-Control-Allow-Origin"] == "https://page.example"
        where = later.headers["Location"]
        assert (await client.get(f"{where}/result?wait=30")).json() == {"pages": 1}
    # For each: the caller's own call, the probe, and the replay.
    assert (ran.count("outside"), ran.count("render")) == (7, 2)
    assert await jobs_in(tmp_path) == 2


async def test_prefix_applies_to_job_links(database: str) -> None:
    app = Coatcheck(
        api_of([]),
        ["POST /render"],
        database=database,
        prefix="/background",
        authorize="fastapi-dependencies",
    )
    async with open_client(app) as client:
        later = await client.post("/render", headers=LATER)
        where = later.headers["Location"]
        assert where == f"/background/v1/jobs/{later.json()['id']}"
        for answer in (later, await client.get(f"{where}?wait=30")):
            assert answer.json()["links"]["result"] == f"{where}/result"
        assert (await client.get(f"{where}/result")).json() == {"pages": 1}
        elsewhere = where.removeprefix("/background")
        assert (await client.get(elsewhere)).json() == {"detail": "Not Found"}


async def test_first_request_starts_it_without_a_lifespan(database: str) -> None:
    app = Coatcheck(
        api_of([]),
        ["POST /render"],
        database=database,
        wait="30s",
        authorize="fastapi-dependencies",
    )
    async with open_client(app, lifespan=False) as client:
        answers = await asyncio.gather(*(client.post("/render") for _ in range(3)))
        assert [each.json() for each in answers] == [{"pages": 1}] * 3


def test_every_request_may_use_its_own_loop(database: str) -> None:
    app = Coatcheck(
        api_of([]),
        ["POST /render"],
        database=database,
        wait="30s",
        authorize="fastapi-dependencies",
    )
    client = TestClient(app)  # without its context it speaks no lifespan
    for pages in (1, 2):
        assert client.post(f"/render?pages={pages}").json() == {"pages": pages}


async def test_keys_of_a_server_on_the_same_database_are_not_needed(
    tmp_path: Path, database: str
) -> None:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    await Authenticator(store, SystemClock(), lambda: b"pepper").create_key("default", ["admin"])
    await store.close()
    api = FastAPI()

    @api.post("/render", dependencies=[Depends(HTTPBearer())])
    async def render(request: Request) -> str:
        return request.headers["authorization"]

    async def anybody(scope: Any) -> bool:
        return True

    app = Coatcheck(api, ["POST /render"], database=database, authorize=anybody)
    async with open_client(app) as client:
        mine = {"Authorization": "Bearer mine"}
        where = (await client.post("/render", headers=mine | LATER)).headers["Location"]
        assert (await client.get(f"{where}/result?wait=30", headers=mine)).json() == "Bearer mine"
        told = (await client.get(f"{where}/events", headers=mine)).text
        assert "event: end" in told


async def test_websocket_goes_to_the_app(database: str) -> None:
    seen: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    app = Coatcheck(inner, ["POST /render"], database=database, authorize="none")
    call: Any = ({"type": "websocket", "path": "/render"}, object(), object())
    await app(*call)
    assert seen == [call]


async def test_unusable_database_prevents_startup(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    broken = f"sqlite:///{tmp_path}/file/jobs.db"
    app = Coatcheck(api_of([]), ["POST /render"], database=broken, authorize="fastapi-dependencies")
    with pytest.raises(AssertionError, match="could not start"):
        async with open_client(app):
            pass


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "an app"},
        {"prefix": "background"},
        {"prefix": "/background/"},
        {"credentials": "keep"},
        {"on_hangup": "forget"},
        {"wait": "soon"},
        {"retries": -1},
    ],
)
async def test_invalid_options_are_rejected(wrong: dict[str, Any], database: str) -> None:
    with pytest.raises(ConfigurationError):
        Coatcheck(api_of([]), ["POST /render"], database=database, authorize="none", **wrong)
