"""The `authorize` hook: who may call, and the caller's identity."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from coatcheck import Coatcheck
from coatcheck.engine.waiters import Waiters
from coatcheck.errors import ConfigurationError

from .asgi_client import open_client

pytestmark = pytest.mark.anyio
LATER = {"Prefer": "respond-async"}
# The users of tokens. Anna has two: the second replaced the first.
TOKENS = {"Bearer one": "anna", "Bearer two": "anna", "Bearer three": "bob"}


def app_of(ran: list[str]) -> Starlette:
    async def render(request: Request) -> JSONResponse:
        ran.append("render")
        user = getattr(request.state, "user", None)
        return JSONResponse({"user": user, "token": request.headers.get("authorization")})

    return Starlette(routes=[Route("/render", render, methods=["POST"])])


async def identify(scope: Any) -> Any:
    user = TOKENS.get(dict(scope["headers"]).get(b"authorization", b"").decode())
    return None if user is None else {"user": user}


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_identity_is_passed_to_the_app(ran: list[str], database: str) -> None:
    app = Coatcheck(
        app_of(ran), ["POST /render"], database=database, authorize=identify, wait="30s"
    )
    async with open_client(app) as client:
        answer = await client.post("/render", headers={"Authorization": "Bearer one"})
        assert answer.json() == {"user": "anna", "token": "Bearer one"}


async def test_unknown_caller_gets_401(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=identify)
    async with open_client(app) as client:
        for headers in ({}, {"Authorization": "Bearer four"}):
            answer = await client.post("/render", headers=headers | LATER, content=b"x" * 100_000)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert answer.json()["type"] == "urn:coatcheck:unauthorized"
    assert ran == []


async def test_same_identity_with_another_token_owns_the_job(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=identify)
    async with open_client(app) as client:
        first = {"Authorization": "Bearer one"}
        where = (await client.post("/render", headers=first | LATER)).headers["Location"]
        path = f"{where}/result?wait=30"
        for token, status in (("two", 200), ("one", 200), ("three", 404), ("four", 401)):
            answer = await client.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == status
            sandboxed = answer.headers.get("content-security-policy") == "sandbox"
            assert sandboxed == (status == 200)


async def test_idempotency_key_belongs_to_the_identity(ran: list[str], database: str) -> None:
    app = Coatcheck(
        app_of(ran), ["POST /render"], database=database, authorize=identify, wait="30s"
    )
    async with open_client(app) as client:
        for token, job in (("one", 1), ("two", 1), ("three", 2)):
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
            answer = await client.post("/render", headers=headers)
            assert (answer.status_code, len(ran)) == (200, job)


async def test_app_gets_the_identity_if_credentials_are_dropped(
    ran: list[str], database: str
) -> None:
    app = Coatcheck(
        app_of(ran),
        ["POST /render"],
        database=database,
        authorize=identify,
        wait="30s",
        credentials="drop",
    )
    async with open_client(app) as client:
        answer = await client.post("/render", headers={"Authorization": "Bearer one"})
        assert answer.json() == {"user": "anna", "token": None}


async def test_hook_can_return_a_response(ran: list[str], database: str) -> None:
    async def not_today(scope: Any) -> Any:
        return PlainTextResponse("not today", 403)

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=not_today)
    async with open_client(app) as client:
        answer = await client.post("/render")
        assert (answer.status_code, answer.text) == (403, "not today")


async def test_only_true_and_a_mapping_authorize(ran: list[str], database: str) -> None:
    said: list[Any] = [False, None, 0, 1, "yes", [], ["yes"]]

    async def says(scope: Any) -> Any:
        return said[0]

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=says, wait="30s")
    async with open_client(app) as client:
        while said:
            assert (await client.post("/render")).status_code == 401
            said.pop(0)
        said.append(True)
        assert (await client.post("/render")).status_code == 200


async def test_identity_that_is_not_json_is_an_error(ran: list[str], database: str) -> None:
    async def says(scope: Any) -> Any:
        return {"user": object()}

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=says)
    async with open_client(app) as client:
        answer = await client.post("/render")
        assert (answer.status_code, answer.json()["type"]) == (
            500,
            "urn:coatcheck:authorize-unknown",
        )
    assert ran == []


async def test_authorize_is_required() -> None:
    for app in (app_of([]), FastAPI()):  # even if FastAPI's dependencies could tell
        with pytest.raises(ConfigurationError, match=r'authorize is required.*authorize="none"'):
            Coatcheck(app, ["POST /render"])
    with pytest.raises(ConfigurationError, match="needs a FastAPI app"):
        Coatcheck(app_of([]), ["POST /render"], authorize="fastapi-dependencies")
    with pytest.raises(ConfigurationError, match="authorize cannot be 'nobody'"):
        Coatcheck(app_of([]), ["POST /render"], authorize="nobody")  # type: ignore[arg-type]


async def test_authorize_none_allows_everyone(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize="none")
    async with open_client(app) as client:
        where = (await client.post("/render", headers=LATER)).headers["Location"]
        assert (await client.get(f"{where}/result?wait=30")).status_code == 200
    assert ran == ["render"]


@pytest.mark.parametrize("of", ["call", "result"])
async def test_token_revoked_during_the_wait_gets_401(
    database: str, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    tokens = dict(TOKENS)
    started, proceed = asyncio.Event(), asyncio.Event()

    async def render(_request: Request) -> JSONResponse:
        started.set()
        await proceed.wait()
        return JSONResponse({"secret": "the launch code"})

    async def hook(scope: Any) -> Any:
        user = tokens.get(dict(scope["headers"]).get(b"authorization", b"").decode())
        return None if user is None else {"user": user}

    wrapped = Starlette(routes=[Route("/render", render, methods=["POST"])])
    app = Coatcheck(wrapped, ["POST /render"], database=database, authorize=hook, wait="30s")
    headers = {"Authorization": "Bearer one"}
    async with open_client(app) as client:
        if of == "call":
            waiting = asyncio.ensure_future(client.post("/render", headers=headers))
        else:
            accepted = await client.post("/render", headers=headers | LATER)
            path = f"{accepted.headers['location']}/result?wait=30"
            entered = watch_waiters(monkeypatch)
            waiting = asyncio.ensure_future(client.get(path, headers=headers))
            await asyncio.wait_for(entered.wait(), 20)
        await asyncio.wait_for(started.wait(), 20)
        del tokens["Bearer one"]
        proceed.set()
        answer = await asyncio.wait_for(waiting, 20)
    assert answer.status_code == 401, answer.text
    assert "launch code" not in answer.text


def watch_waiters(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return an event that is set when a request waits for a job."""
    entered, enter = asyncio.Event(), Waiters._register

    def entering(watch: Waiters, *arguments: Any) -> None:
        enter(watch, *arguments)
        entered.set()

    monkeypatch.setattr(Waiters, "_register", entering)
    return entered
