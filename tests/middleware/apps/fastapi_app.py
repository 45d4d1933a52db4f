"""A typical app: a lifespan, dependencies, authentication, slow endpoints.

Only the last lines, and endpoints that read `scope["coatcheck"]`, depend on Coatcheck.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from fastapi import BackgroundTasks, Depends, FastAPI, HTTPException, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from coatcheck import Coatcheck
from tests.middleware.gate import pass_gate, pass_gate_blocking

NOTES = Path("notes")


def note(what: str) -> None:
    with NOTES.open("a") as file:
        file.write(f"{what}\n")


class State(TypedDict):
    loop: asyncio.AbstractEventLoop


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[State]:
    note("up")
    yield {"loop": asyncio.get_running_loop()}
    note("down")


api = FastAPI(lifespan=lifespan)


def user_of(found: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    if found.credentials not in ("anna", "bob"):
        raise HTTPException(401, "who are you?")
    return found.credentials


async def session() -> AsyncIterator[str]:
    try:
        yield "a session"
        note("commit")
    except BaseException:
        note("rollback")
        raise


User = Annotated[str, Depends(user_of)]
Session = Annotated[str, Depends(session)]


@api.get("/pid")
async def pid() -> int:
    return os.getpid()


@api.post("/quick")
async def quick(request: Request, user: User, found: Session, order: dict[str, Any]) -> Any:
    return JSONResponse(
        {
            "user": user,
            "session": found,
            "order": order,
            "url": str(request.url),
            "client": request.client and request.client.host,
            "same_loop": request.state.loop is asyncio.get_running_loop(),
            "key": request.headers["idempotency-key"],
        },
        201,
        {"X-Shelf": "7", "Set-Cookie": "seen=1"},
    )


@api.post("/slow")
async def slow(request: Request, user: User, order: dict[str, Any]) -> Any:
    ctx = request.scope["coatcheck"]
    await ctx.progress(1, 2, "half")
    try:
        await pass_gate(f"slow {ctx.attempt} {os.getpid()}")
    except asyncio.CancelledError:
        note("slow was cancelled")
        raise
    note("slow is done")
    return JSONResponse({"user": user, "order": order, "attempt": ctx.attempt}, 201)


@api.post("/once")
async def once(user: User, order: dict[str, Any]) -> str:
    await pass_gate("once")
    return "done"


@api.post("/steps")
async def steps(request: Request, user: User) -> Any:
    ctx = request.scope["coatcheck"]

    async def draw(pages: int) -> list[int]:
        note("draw")
        same = request.state.loop is asyncio.get_running_loop()
        return [pages, int(same)]

    drawn = await ctx.step(draw, 3)
    await pass_gate(f"steps {ctx.attempt}")
    return drawn


@api.post("/stream")
async def stream(user: User) -> StreamingResponse:
    async def rows() -> AsyncIterator[bytes]:
        yield b"first\n"
        await pass_gate("stream")
        yield b"last\n"

    return StreamingResponse(rows(), media_type="text/plain")


@api.post("/upload")
async def upload(user: User, file: UploadFile) -> dict[str, Any]:
    digest = hashlib.sha256()
    while piece := await file.read(65_536):
        digest.update(piece)
    return {"name": file.filename, "size": file.size, "sha256": digest.hexdigest()}


@api.post("/behind")
async def behind(user: User, tasks: BackgroundTasks) -> str:
    tasks.add_task(note, "background")
    return "answered"


@api.post("/blocking")
async def blocking(user: User) -> str:
    pass_gate_blocking("blocking")  # a mistake on purpose: it blocks the whole loop
    return "done"


@api.post("/raises")
async def raises(user: User) -> str:
    raise RuntimeError("boom")


@api.post("/plain")
async def plain(user: User) -> str:
    return "not a job"


_ROUTES = [
    *("POST /quick", "POST /slow", "POST /steps", "POST /stream", "POST /upload"),
    *("POST /behind", "POST /blocking", "POST /raises"),
]
_wait = os.environ.get("TEST_WAIT", "100ms")
app = Coatcheck(
    api,
    routes=_ROUTES,
    wait=_wait,
    authorize="fastapi-dependencies",
    repeatable="TEST_ONCE" not in os.environ,
)
