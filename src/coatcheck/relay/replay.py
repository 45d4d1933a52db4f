"""Answers on their way out: as they come down a line, and as they were kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from coatcheck.engine.engine import Engine
from coatcheck.errors import BlobGone
from coatcheck.model.job import Job
from coatcheck.relay.call import BODY, ResponseHead, StoredResponse
from coatcheck.relay.credentials import Binding, CallEncryption
from coatcheck.relay.frames import SocketBroken
from coatcheck.relay.headers import Pairs, raw_of
from coatcheck.relay.server_socket import PendingCall, UpstreamBroke

log = logging.getLogger(__name__)

JOB = "coatcheck-job"
_BODILESS = frozenset({204, 304})
# Beside a policy of the upstream's own: a browser applies both.
SANDBOXED = ("content-security-policy", "sandbox")
# The server says these of its own answers.
_SERVERS = frozenset({"date"})


def sent_headers(head: ResponseHead, job: Job, extra: Pairs, length: int | None = None) -> Pairs:
    """Return the headers of an answer as it is sent on; `length` is that of the body, where it is
    known by another way than the upstream's word.
    """
    dropped = _SERVERS
    if length is not None or head.status in _BODILESS:
        dropped = dropped | {"content-length"}
    kept = [(name, value) for name, value in head.headers if name not in dropped]
    if length is not None and head.status not in _BODILESS:
        kept.append(("content-length", str(length)))
    return [*kept, (JOB, job.id), *extra]


class StreamedResponse(Response):
    """An answer as it comes down a line. One that breaks off is not ended: the server closes the
    connection without the end of the body, which every client can tell.
    """

    def __init__(
        self,
        expected: PendingCall,
        head: ResponseHead,
        headers: Pairs,
        *,
        gone: asyncio.Task[None],
        stall_s: float,
        on_gone: Callable[[], Awaitable[Any]],
        on_lost: Callable[[], Awaitable[Any]],
    ) -> None:
        self.status_code = head.status
        self.raw_headers = raw_of(headers)
        self.background = None
        self._expected = expected
        self._gone = gone
        self._stall_s = stall_s
        self._on_gone = on_gone
        self._on_lost = on_lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it."""
        passing = asyncio.create_task(self._pass_on(send))
        try:
            await asyncio.wait({passing, self._gone}, return_when=asyncio.FIRST_COMPLETED)
            if not passing.done():
                await self._on_gone()
            else:
                passing.result()
        except UpstreamBroke:
            log.info("an answer broke off")
        except SocketBroken:
            log.warning("an answer was lost with its worker")
            await self._on_lost()
        except TimeoutError:
            log.info("a caller took nothing any more")
            await self._on_gone()
        finally:
            passing.cancel()
            self._gone.cancel()
            self._expected.hang_up()

    async def _pass_on(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        async for chunk in self._expected.chunks():
            async with asyncio.timeout(self._stall_s):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class ReplayedResponse(Response):
    """An answer as it was kept. It is replayed on our origin, so it is sandboxed: a browser runs no
    script of it that could call this server with its user's key.
    """

    def __init__(self, status: int, headers: Pairs, pieces: AsyncIterator[bytes] | bytes) -> None:
        self.status_code = status
        self.raw_headers = raw_of([*headers, SANDBOXED])
        self.background = None
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send it."""
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        if isinstance(self._pieces, bytes):
            await send({"type": "http.response.body", "body": self._pieces})
            return
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def read_answer(engine: Engine, job: Job, secrecy: CallEncryption) -> StoredResponse:
    """Return the answer that a job has kept, opened; raises KeyMissing, BlobDamaged, BlobGone."""
    answer = StoredResponse.model_validate_json(
        await engine.payload_store.read(job.result or "null")
    )
    return secrecy.opened(answer, answer_binding(job))


def answer_binding(job: Job) -> Binding:
    """Return what the encrypted part of a job's answer is bound to."""
    return Binding(job.tenant, job.kind, job.id)


async def body_of(engine: Engine, job: Job, answer: StoredResponse) -> AsyncIterator[bytes] | bytes:
    """Return the body of an answer that was kept: itself where it is small, else its pieces."""
    if not answer.artifact:
        return b"" if answer.body is None else answer.body.content
    for artifact in job.artifacts:
        if artifact.name == BODY:
            return await engine.payload_store.stream(artifact)
    raise BlobGone(f"the answer of job {job.id} is not there any more")


async def answer_kept(
    engine: Engine, request: Request, job: Job, secrecy: CallEncryption, extra: Pairs | None = None
) -> Response:
    """Answer with what a job has kept, as the upstream answered it."""
    answer = await read_answer(engine, job, secrecy)
    head = ResponseHead(answer.status, list(answer.headers))
    is_head = request.method == "HEAD"
    pieces = b"" if is_head else await body_of(engine, job, answer)
    # An answer to HEAD has the length of what it has not: only such a request gets it as it is.
    length = None if is_head and not answer.size else answer.size
    return ReplayedResponse(answer.status, sent_headers(head, job, extra or [], length), pieces)
