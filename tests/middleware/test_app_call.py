"""Calling the app for a job: any ASGI app, as a server would call it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from coatcheck import Coatcheck
from coatcheck.middleware.app_call import READ_AHEAD, AppCall

from .asgi_client import open_client
from .requests import body_of, scope_of

pytestmark = pytest.mark.anyio
LATER = {"Prefer": "respond-async"}
START: Any = {"type": "http.response.start", "status": 200, "headers": [(b"X-Two", b"1")]}


def body(content: bytes, more: bool = False) -> Any:
    return {"type": "http.response.body", "body": content, "more_body": more}


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def wrapped(app: Any, database: str, **more: Any) -> Coatcheck:
    options: dict[str, Any] = {"authorize": "none", "wait": "30s", **more}
    return Coatcheck(app, ["POST /{any}/*", "GET /{any}/*"], database=database, **options)


async def test_app_sees_the_original_request(database: str) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise ValueError
        messages = [await receive()]
        while messages[-1]["more_body"]:
            messages.append(await receive())
        seen.append((scope, b"".join(each["body"] for each in messages)))
        await send(START)
        await send(body(b"done"))

    async with open_client(wrapped(app, database)) as client:
        path = "/a%20b/c%2Fd?x=%C3%A4&x=2"
        headers = [("X-Two", "1"), ("X-Two", "2"), ("Connection", "x-hop"), ("X-Hop", "1")]
        answer = await client.post(path, headers=headers, content=b"\0\xff")
        assert (answer.content, answer.headers["X-Two"]) == (b"done", "1")
        await client.get("/a%20b/")
    (scope, content), (second, nothing) = seen
    assert (content, nothing) == (b"\0\xff", b"")
    assert scope["raw_path"].split(b"?")[0] == b"/a%20b/c%2Fd"
    assert (scope["path"], scope["query_string"]) == ("/a b/c/d", b"x=%C3%A4&x=2")
    assert scope["coatcheck"].attempt == 1
    found = [(name, value) for name, value in scope["headers"]]
    assert (b"host", b"app.example") in found
    assert (b"content-length", b"2") in found
    assert [value for name, value in found if name == b"x-two"] == [b"1", b"2"]
    assert not any(name in (b"x-hop", b"connection") or b" " in name for name, _ in found)
    assert not any(name == b"content-length" for name, _ in second["headers"])


async def test_app_that_raises_gets_a_500(database: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("boom")

    async with open_client(wrapped(app, database)) as client:
        answer = await client.post("/a%20b/c")
        assert (answer.status_code, answer.text) == (500, "Internal Server Error")


async def test_broken_response_fails_the_job(database: str) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        await send(body(b"begun", more=True))
        raise RuntimeError("boom")

    async with open_client(wrapped(app, database, retries=0)) as client:
        where = (await client.post("/a%20b/c", headers=LATER)).headers["Location"]
        job = (await client.get(f"{where}?wait=30")).json()
        assert job["state"] == "failed"
        assert "in the middle of its response" in job["error"]["message"]
        assert (await client.get(f"{where}/result")).status_code == 409


async def test_retry_status_is_retried(database: str) -> None:
    statuses = [503, 503, 200]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            raise ValueError
        status = statuses.pop(0)
        await send({**START, "status": status, "headers": [(b"retry-after", b"0")]})
        await send(body(str(status).encode()))

    async with open_client(wrapped(app, database, retry_statuses=[503])) as client:
        assert (await client.post("/a%20b/c")).text == "200"


async def test_app_waits_for_its_reader_and_gets_disconnect_last() -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["type"] == "http.request"
        gone = asyncio.create_task(receive())
        await send(START)
        for number in range(20):
            await send(body(b"x", more=True))
            done.append(f"sent {number}")
        assert not gone.done()
        await send(body(b""))
        done.append((await gone)["type"])

    loop = asyncio.get_running_loop()
    async with AppCall(body_of()()).run(app, scope_of("GET", "/"), loop) as call:
        messages = call.messages()
        await anext(messages)
        for _ in range(1000):  # as much time as it could want
            await asyncio.sleep(0)
        assert len(done) == READ_AHEAD
        assert len([each async for each in messages]) == 21
    assert done[-1] == "http.disconnect"


async def test_leaving_early_cancels_the_app_and_waits() -> None:
    done: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(START)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            done.append("cleaned up")

    loop = asyncio.get_running_loop()
    async with AppCall(body_of()()).run(app, scope_of("GET", "/"), loop) as call:
        await anext(call.messages())
    assert done == ["cleaned up"]
