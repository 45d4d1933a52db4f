"""The handler's part: make the call, pass its answer on, keep it, and say what becomes of the job.

See the head of the package for the rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from coatcheck.errors import Fail, InvalidInput, Retry
from coatcheck.model.artifact import UNKNOWN_TYPE, check_content_type
from coatcheck.model.job import API_SURFACE
from coatcheck.relay.call import BODY, InlineBody, ResponseHead, StoredCall, StoredResponse
from coatcheck.relay.client_socket import STALL_S, ClientSocket, dial
from coatcheck.relay.credentials import Binding, CallEncryption, Unreadable
from coatcheck.relay.frames import FrameType
from coatcheck.relay.headers import end_to_end, sendable, value_of
from coatcheck.relay.spool import Spool
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    Upstream,
    UpstreamRequest,
    UpstreamResponse,
)
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

OnHangup = Literal["continue", "cancel"]

VIA = "1.1 coatcheck"
PIECE = 256 * 1024
# How long the blob store may take for the body of an answer.
KEEP_S = 1800.0
# Who answers "come back in a day" is asked again before.
LONGEST_ASKED_S = 300.0
_SECONDS = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class CallTerms:
    """What was agreed about calls of one kind."""

    name: str  # the kind of its jobs, to which what is encrypted is bound
    # By which its calls come in, and nobody else's: jobs of it hold what a relay has stored.
    surface: str = API_SURFACE
    timeout_s: float = 3600.0  # for one attempt, from the first byte to the last
    retries: int = 2  # as the kind was declared with
    retry_statuses: frozenset[int] = frozenset()
    repeatable: bool = False  # whether it may be made again after it broke off
    on_hangup: OnHangup = "continue"  # what becomes of a job whose caller hangs up
    stall_s: float = STALL_S


async def relay_call(
    ctx: Context,
    call: StoredCall,
    upstream: Upstream,
    terms: CallTerms,
    secrecy: CallEncryption,
    *,
    on_head: Callable[[ResponseHead], Awaitable[None]] | None = None,
) -> StoredResponse:
    """Make a stored call and return its answer as it is kept; `on_head` is awaited when the
    upstream has begun to answer. Raises Retry and Fail, as the terms say.
    """
    return await _Relaying(ctx, call, terms, secrecy, on_head).run(upstream)


class _Relaying:
    """One attempt at one call."""

    def __init__(
        self,
        ctx: Context,
        call: StoredCall,
        terms: CallTerms,
        secrecy: CallEncryption,
        on_head: Callable[[ResponseHead], Awaitable[None]] | None,
    ) -> None:
        self._ctx = ctx
        self._call = call
        self._terms = terms
        self._secrecy = secrecy
        self._on_head = on_head
        self._line: ClientSocket | None = None
        self._binding = Binding(ctx.tenant, terms.name, ctx.job_id, call.owner)

    async def run(self, upstream: Upstream) -> StoredResponse:
        # What fails up to here was never sent, and is tried again like any handler.
        outgoing = self._outgoing()
        body = await self._body()
        with contextlib.closing(Spool()) as spool:
            try:
                head = await self._call_now(upstream, outgoing, body, spool)
                return await self._kept(head, spool)
            except (Retry, Fail):
                raise
            except Exception as error:
                # Whatever it is: the call was made, and must not be made again by accident.
                log.warning("a call could not be relayed", exc_info=error)
                words = f"its answer could not be kept ({type(error).__name__})"
                raise await self._broken("not-kept", words) from error
            finally:
                if self._line is not None:
                    self._line.close()

    async def _call_now(
        self,
        upstream: Upstream,
        outgoing: UpstreamRequest,
        body: AsyncIterator[bytes] | None,
        spool: Spool,
    ) -> ResponseHead:
        try:
            async with asyncio.timeout(self._terms.timeout_s):
                async with upstream.call(outgoing, body) as incoming:
                    return await self._pass_on(incoming, spool)
        except TargetUnreachable as error:
            raise Retry(f"the target cannot be reached: {error}", counts=False) from error
        except CallBroken as error:
            raise await self._broken("broken-off", f"the call broke off: {error}") from error
        except TimeoutError as error:
            words = f"the target took longer than {self._terms.timeout_s:g} s"
            raise await self._broken("upstream-timeout", words) from error

    def _outgoing(self) -> UpstreamRequest:
        ctx, call = self._ctx, self._call
        try:
            by_rule = ctx.surface == self._terms.surface
            secret = self._secrecy.decrypt(call.credentials, self._binding, by_rule=by_rule)
        except Unreadable as error:
            words = "the credentials of this call were encrypted for another job or pepper"
            raise Fail("credentials-unreadable", words) from error
        key = call.idempotency_key or ctx.job_id
        headers = [
            *sendable([*call.headers, *secret]),
            ("idempotency-key", key),
            ("traceparent", ctx.traceparent or made_traceparent(ctx.job_id, ctx.attempt)),
            ("via", VIA),
        ]
        return UpstreamRequest(call.method, call.path, headers, call.size)

    async def _body(self) -> AsyncIterator[bytes] | None:
        if self._call.upload is not None:
            return _pieces(await self._ctx.file(self._call.upload))
        return None if self._call.body is None else _once(self._call.body.content)

    async def _pass_on(self, incoming: UpstreamResponse, spool: Spool) -> ResponseHead:
        terms, ctx = self._terms, self._ctx
        status, given = incoming.head
        if status in terms.retry_statuses and ctx.attempt <= terms.retries:
            raise Retry(
                f"the target answered {status}", after=_asked(value_of(given, "retry-after"))
            )
        head = ResponseHead(status, end_to_end(given))
        if self._on_head is not None:
            await self._on_head(head)
        line = self._line = await dial(self._call.line, ctx.job_id, head, terms.stall_s)
        async for chunk in incoming.chunks:
            spool.add(chunk)
            if line is not None:
                await line.chunk(chunk)
                self._check_caller(line)
        if line is not None:
            await line.say(FrameType.END)
        return head

    def _check_caller(self, line: ClientSocket) -> None:
        if not line.is_open and self._terms.on_hangup == "cancel":
            raise Fail("caller-gone", "the caller hung up before the answer was complete")

    async def _kept(self, head: ResponseHead, spool: Spool) -> StoredResponse:
        content = spool.content
        answer = StoredResponse(
            status=head.status,
            headers=head.headers,
            size=spool.size,
            body=InlineBody.of(content) if content else None,
            artifact=content is None,
        )
        if content is None:
            async with asyncio.timeout(KEEP_S):
                await self._ctx.artifact(BODY, spool.from_start(), _media_type(head))
        binding = self._binding._replace(owner=None)
        return self._secrecy.closed(answer, binding, owned=self._call.is_owned)

    async def _broken(self, code: str, words: str) -> Retry | Fail:
        """Say what becomes of the job after a call that nobody knows the end of."""
        if self._line is not None:
            await self._line.say(FrameType.BROKE)
            return Fail(code, f"{words}; its caller had the beginning of an answer")
        if self._terms.repeatable:
            return Retry(words)
        return Fail(code, f"{words}; it must not be made twice")


def made_traceparent(job_id: str, attempt: int) -> str:
    """Return the trace of a job that came with none: one a job, with a span an attempt."""
    trace = hashlib.sha256(job_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{job_id}/{attempt}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"


def _asked(retry_after: str | None) -> float | None:
    if retry_after is None or not _SECONDS.fullmatch(retry_after.strip()):
        return None
    return min(LONGEST_ASKED_S, float(retry_after))


def _media_type(head: ResponseHead) -> str:
    try:
        return check_content_type(value_of(head.headers, "content-type"), "")
    except InvalidInput:
        return UNKNOWN_TYPE


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    with contextlib.closing(file):
        while piece := await asyncio.to_thread(partial(file.read, PIECE)):
            yield piece
