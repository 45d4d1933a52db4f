"""A hook says who may call, and who somebody is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Route

from coatcheck import Coatcheck
from coatcheck.engine.waiters import Waiters
from coatcheck.errors import ConfigurationError

from .inside import calling

pytestmark = pytest.mark.anyio
LATER = {"Prefer": "respond-async"}
# Who a token is for. Anna has two: the second was given out when the first expired.
TOKENS = {"Bearer one": "anna", "Bearer two": "anna", "Bearer three": "bob"}


def app_of(ran: list[str]) -> Starlette:
    async def render(request: Request) -> JSONResponse:
        ran.append("render")
        user = getattr(request.state, "user", None)
        return JSONResponse({"user": user, "token": request.headers.get("authorization")})

    return Starlette(routes=[Route("/render", render, methods=["POST"])])


async def who(scope: Any) -> Any:
    user = TOKENS.get(dict(scope["headers"]).get(b"authorization", b"").decode())
    return None if user is None else {"user": user}


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


async def test_whom_it_knows_is_let_in_and_told_of(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=who, wait="30s")
    async with calling(app) as client:
        answer = await client.post("/render", headers={"Authorization": "Bearer one"})
        assert answer.json() == {"user": "anna", "token": "Bearer one"}


async def test_whom_it_does_not_know_gets_401(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=who)
    async with calling(app) as client:
        for headers in ({}, {"Authorization": "Bearer four"}):
            answer = await client.post("/render", headers=headers | LATER, content=b"x" * 100_000)
            assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
            assert answer.json()["type"] == "urn:coatcheck:unauthorized"
    assert ran == []


async def test_who_comes_back_with_another_token_is_the_same(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=who)
    async with calling(app) as client:
        first = {"Authorization": "Bearer one"}
        where = (await client.post("/render", headers=first | LATER)).headers["Location"]
        path = f"{where}/result?wait=30"
        for token, status in (("two", 200), ("one", 200), ("three", 404), ("four", 401)):
            answer = await client.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == status
            sandboxed = answer.headers.get("content-security-policy") == "sandbox"
            assert sandboxed == (status == 200)


async def test_a_request_is_repeated_with_another_token(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=who, wait="30s")
    async with calling(app) as client:
        for token, job in (("one", 1), ("two", 1), ("three", 2)):
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": "k"}
            answer = await client.post("/render", headers=headers)
            assert (answer.status_code, len(ran)) == (200, job)


async def test_without_credentials_kept_the_app_has_what_the_hook_said(
    ran: list[str], database: str
) -> None:
    app = Coatcheck(
        app_of(ran),
        ["POST /render"],
        database=database,
        authorize=who,
        wait="30s",
        credentials="drop",
    )
    async with calling(app) as client:
        answer = await client.post("/render", headers={"Authorization": "Bearer one"})
        assert answer.json() == {"user": "anna", "token": None}


async def test_it_may_answer_in_its_own_words(ran: list[str], database: str) -> None:
    async def not_today(scope: Any) -> Any:
        return PlainTextResponse("not today", 403)

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=not_today)
    async with calling(app) as client:
        answer = await client.post("/render")
        assert (answer.status_code, answer.text) == (403, "not today")


async def test_only_true_and_a_mapping_let_anybody_in(ran: list[str], database: str) -> None:
    said: list[Any] = [False, None, 0, 1, "yes", [], ["yes"]]

    async def says(scope: Any) -> Any:
        return said[0]

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=says, wait="30s")
    async with calling(app) as client:
        while said:
            assert (await client.post("/render")).status_code == 401
            said.pop(0)
        said.append(True)
        assert (await client.post("/render")).status_code == 200


async def test_what_cannot_be_stored_is_said(ran: list[str], database: str) -> None:
    async def says(scope: Any) -> Any:
        return {"user": object()}

    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize=says)
    async with calling(app) as client:
        answer = await client.post("/render")
        assert (answer.status_code, answer.json()["type"]) == (
            500,
            "urn:coatcheck:authorize-unknown",
        )
    assert ran == []


async def test_an_app_that_cannot_be_asked_needs_it() -> None:
    with pytest.raises(ConfigurationError, match='authorize="none"'):
        Coatcheck(app_of([]), ["POST /render"])
    with pytest.raises(ConfigurationError, match="authorize is a function"):
        Coatcheck(app_of([]), ["POST /render"], authorize="nobody")  # type: ignore[arg-type]


async def test_nobody_is_asked_where_the_developer_says_so(ran: list[str], database: str) -> None:
    app = Coatcheck(app_of(ran), ["POST /render"], database=database, authorize="none")
    async with calling(app) as client:
        where = (await client.post("/render", headers=LATER)).headers["Location"]
        assert (await client.get(f"{where}/result?wait=30")).status_code == 200
    assert ran == ["render"]


@pytest.mark.parametrize("of", ["call", "result"])
async def test_who_loses_their_token_while_they_wait_gets_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch, of: str
) -> None:
    tokens = dict(TOKENS)
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def render(_request: Request) -> JSONResponse:
        begun.set()
        await goes_on.wait()
        return JSONResponse({"secret": "the launch code"})

    async def hook(scope: Any) -> Any:
        user = tokens.get(dict(scope["headers"]).get(b"authorization", b"").decode())
        return None if user is None else {"user": user}

    wrapped = Starlette(routes=[Route("/render", render, methods=["POST"])])
    app = Coatcheck(wrapped, ["POST /render"], database=database, authorize=hook, wait="30s")
    headers = {"Authorization": "Bearer one"}
    async with calling(app) as client:
        if of == "call":
            waiting = asyncio.ensure_future(client.post("/render", headers=headers))
        else:
            accepted = await client.post("/render", headers=headers | LATER)
            place = f"{accepted.headers['location']}/result?wait=30"
            entered = waits_of(monkeypatch)
            waiting = asyncio.ensure_future(client.get(place, headers=headers))
            await asyncio.wait_for(entered.wait(), 20)
        await asyncio.wait_for(begun.wait(), 20)
        del tokens["Bearer one"]
        goes_on.set()
        answer = await asyncio.wait_for(waiting, 20)
    assert answer.status_code == 401, answer.text
    assert "launch code" not in answer.text


def waits_of(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Return what is set as soon as somebody waits for a job."""
    entered, enter = asyncio.Event(), Waiters._register

    def entering(watch: Waiters, *arguments: Any) -> None:
        enter(watch, *arguments)
        entered.set()

    monkeypatch.setattr(Waiters, "_register", entering)
    return entered
