"""Sending a response to the caller: streamed from the socket, or replayed from storage."""

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
from coatcheck.relay.headers import Pairs, encode_headers
from coatcheck.relay.server_socket import PendingCall, UpstreamBroke

log = logging.getLogger(__name__)

JOB = "coatcheck-job"
_BODILESS = frozenset({204, 304})
# Added to a policy of the upstream: a browser applies both.
SANDBOXED = ("content-security-policy", "sandbox")
# Our own server adds these.
_SERVER_HEADERS = frozenset({"date"})


def response_headers(
    head: ResponseHead, job: Job, extra: Pairs, length: int | None = None
) -> Pairs:
    """Return the headers to send to the caller. `length` is the length of the body, if it is known
    from another source than the upstream's header.
    """
    dropped = _SERVER_HEADERS
    if length is not None or head.status in _BODILESS:
        dropped = dropped | {"content-length"}
    pairs = [(name, value) for name, value in head.headers if name not in dropped]
    if length is not None and head.status not in _BODILESS:
        pairs.append(("content-length", str(length)))
    return [*pairs, (JOB, job.id), *extra]


class StreamedResponse(Response):
    """A response streamed from the socket. If it breaks, the server closes the connection without
    the end of the body, which every client can detect.
    """

    def __init__(
        self,
        call: PendingCall,
        head: ResponseHead,
        headers: Pairs,
        *,
        disconnected: asyncio.Task[None],
        stall_s: float,
        on_disconnect: Callable[[], Awaitable[Any]],
        on_lost: Callable[[], Awaitable[Any]],
    ) -> None:
        self.status_code = head.status
        self.raw_headers = encode_headers(headers)
        self.background = None
        self._call = call
        self._disconnected = disconnected
        self._stall_s = stall_s
        self._on_disconnect = on_disconnect
        self._on_lost = on_lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response."""
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait({sending, self._disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                await self._on_disconnect()
            else:
                sending.result()
        except UpstreamBroke:
            log.info("upstream response broke off")
        except SocketBroken:
            log.warning("worker lost while its response was streamed")
            await self._on_lost()
        except TimeoutError:
            log.info("caller stalled")
            await self._on_disconnect()
        finally:
            sending.cancel()
            self._disconnected.cancel()
            self._call.close()

    async def _send(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        async for chunk in self._call.chunks():
            async with asyncio.timeout(self._stall_s):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class ReplayedResponse(Response):
    """A stored response. It is replayed on our origin, so it is sandboxed: a browser runs no script
    of it that could call this server with its user's key.
    """

    def __init__(self, status: int, headers: Pairs, body: AsyncIterator[bytes] | bytes) -> None:
        self.status_code = status
        self.raw_headers = encode_headers([*headers, SANDBOXED])
        self.background = None
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the response."""
        head = {"type": "http.response.start", "status": self.status_code}
        await send({**head, "headers": self.raw_headers})
        if isinstance(self._body, bytes):
            await send({"type": "http.response.body", "body": self._body})
            return
        async for piece in self._body:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def read_response(engine: Engine, job: Job, encryption: CallEncryption) -> StoredResponse:
    """Return a job's stored response, decrypted; raises KeyMissing, BlobDamaged, BlobGone."""
    response = StoredResponse.model_validate_json(
        await engine.payload_store.read(job.result or "null")
    )
    return encryption.decrypt_response(response, response_binding(job))


def response_binding(job: Job) -> Binding:
    """Return the binding of the encrypted part of a job's response."""
    return Binding(job.tenant, job.kind, job.id)


async def open_body(
    engine: Engine, job: Job, response: StoredResponse
) -> AsyncIterator[bytes] | bytes:
    """Return the body of a stored response: the bytes if it is small, otherwise its pieces."""
    if not response.artifact:
        return b"" if response.body is None else response.body.content
    for artifact in job.artifacts:
        if artifact.name == BODY:
            return await engine.payload_store.stream(artifact)
    raise BlobGone(f"the response of job {job.id} no longer exists")


async def replay_response(
    engine: Engine,
    request: Request,
    job: Job,
    encryption: CallEncryption,
    extra: Pairs | None = None,
) -> Response:
    """Return a job's stored response, as the upstream sent it."""
    stored = await read_response(engine, job, encryption)
    head = ResponseHead(stored.status, list(stored.headers))
    is_head = request.method == "HEAD"
    body = b"" if is_head else await open_body(engine, job, stored)
    # A response to HEAD declares a length without a body; only a HEAD request gets it unchanged.
    length = None if is_head and not stored.size else stored.size
    return ReplayedResponse(stored.status, response_headers(head, job, extra or [], length), body)
