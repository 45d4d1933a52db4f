"""The job handler of relayed calls: it makes the call, streams and stores the response, and decides
the outcome of the attempt.

The head of the package states the rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Literal

from coatcheck.errors import Fail, InvalidInput, Retry
from coatcheck.model.artifact import UNKNOWN_TYPE, check_content_type
from coatcheck.model.job import API_SURFACE
from coatcheck.relay.call import (
    BODY,
    INLINE_BODY,
    InlineBody,
    ResponseHead,
    StoredCall,
    StoredResponse,
)
from coatcheck.relay.client_socket import STALL_S, ClientSocket, connect_to_caller
from coatcheck.relay.credentials import DECRYPTION_ERRORS, Binding, CallEncryption
from coatcheck.relay.frames import FrameType
from coatcheck.relay.headers import end_to_end_headers, find_header, sendable_headers
from coatcheck.relay.upstream import (
    CallBroken,
    Upstream,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
    one_chunk,
)
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

OnHangup = Literal["continue", "cancel"]

VIA = "1.1 coatcheck"
PIECE = 256 * 1024
# How long the blob store may take to store the body of a response.
STORE_S = 1800.0
# A longer `Retry-After` of the upstream is cut to this.
MAX_RETRY_AFTER_S = 300.0
_SECONDS = re.compile(r"[0-9]{1,6}")


@dataclass(frozen=True, slots=True)
class CallTerms:
    """The options of the calls of one kind."""

    name: str  # the kind, to which encrypted text is bound
    # The surface that alone stores calls of this kind; its jobs hold only what a relay stored.
    surface: str = API_SURFACE
    timeout_s: float = 3600.0  # of one attempt, from the first byte to the last
    retries: int = 2  # as declared for the kind
    retry_statuses: frozenset[int] = frozenset()
    repeatable: bool = False  # whether a broken call may be made again
    on_hangup: OnHangup = "continue"  # for a job whose caller disconnects
    stall_s: float = STALL_S


async def relay_call(
    ctx: Context,
    call: StoredCall,
    upstream: Upstream,
    terms: CallTerms,
    encryption: CallEncryption,
    *,
    on_head: Callable[[ResponseHead], Awaitable[None]] | None = None,
) -> StoredResponse:
    """Make a stored call and return its response as it is stored. `on_head` is awaited when the
    upstream starts to respond. Raises Retry and Fail as the terms say.
    """
    return await _RelayAttempt(ctx, call, terms, encryption, on_head).run(upstream)


class Spool:
    """A response body in progress: in memory while it is small, then in an unnamed file, so that
    nothing is left of it if the process dies.

    Only a complete body goes to the blob store: a stream may take an hour, and would hold a thread
    there.
    """

    def __init__(self, max_inline: int = INLINE_BODY) -> None:
        self._max_inline = max_inline
        self._pieces: list[bytes] = []
        self._file: IO[bytes] | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Append a piece."""
        self.size += len(piece)
        if self._file is not None:
            self._file.write(piece)
            return
        self._pieces.append(piece)
        if self.size > self._max_inline:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the spool
            self._file.writelines(self._pieces)
            self._pieces.clear()

    @property
    def content(self) -> bytes | None:
        """The whole body if it is small, otherwise None."""
        return b"".join(self._pieces) if self._file is None else None

    def rewind(self) -> IO[bytes]:
        """Return the file of a body that is not small, at its start."""
        assert self._file is not None, "a small body has no file"
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Delete the body."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()


class _RelayAttempt:
    """One attempt at one call."""

    def __init__(
        self,
        ctx: Context,
        call: StoredCall,
        terms: CallTerms,
        encryption: CallEncryption,
        on_head: Callable[[ResponseHead], Awaitable[None]] | None,
    ) -> None:
        self._ctx = ctx
        self._call = call
        self._terms = terms
        self._encryption = encryption
        self._on_head = on_head
        self._caller: ClientSocket | None = None
        self._binding = Binding(ctx.tenant, terms.name, ctx.job_id, call.owner)

    async def run(self, upstream: Upstream) -> StoredResponse:
        # An error before the call is made is retried as in any handler.
        request = self._build_request()
        body = await self._open_body()
        with contextlib.closing(Spool()) as spool:
            try:
                head = await self._make_call(upstream, request, body, spool)
                return await self._store(head, spool)
            except (Retry, Fail):
                raise
            except Exception as error:
                # The call was made, and must not be made again by accident.
                log.warning("relayed call failed", exc_info=error)
                message = f"the response could not be stored ({type(error).__name__})"
                raise await self._broken("not-kept", message) from error
            finally:
                if self._caller is not None:
                    self._caller.close()

    async def _make_call(
        self,
        upstream: Upstream,
        request: UpstreamRequest,
        body: AsyncIterator[bytes] | None,
        spool: Spool,
    ) -> ResponseHead:
        try:
            async with asyncio.timeout(self._terms.timeout_s):
                async with upstream.call(request, body) as response:
                    return await self._pass_on(response, spool)
        except UpstreamUnreachable as error:
            raise Retry(f"the upstream cannot be reached: {error}", counts=False) from error
        except CallBroken as error:
            raise await self._broken("broken-off", f"the call broke off: {error}") from error
        except TimeoutError as error:
            message = f"the upstream took longer than {self._terms.timeout_s:g} s"
            raise await self._broken("upstream-timeout", message) from error

    def _build_request(self) -> UpstreamRequest:
        ctx, call = self._ctx, self._call
        try:
            by_rule = ctx.surface == self._terms.surface
            secret = self._encryption.decrypt_headers(
                call.credentials, self._binding, by_rule=by_rule
            )
        except DECRYPTION_ERRORS as error:
            message = "the credentials of this call were encrypted for another job or pepper"
            raise Fail("credentials-unreadable", message) from error
        key = call.idempotency_key or ctx.job_id
        headers = [
            *sendable_headers([*call.headers, *secret]),
            ("idempotency-key", key),
            ("traceparent", ctx.traceparent or make_traceparent(ctx.job_id, ctx.attempt)),
            ("via", VIA),
        ]
        return UpstreamRequest(call.method, call.path, headers, call.size)

    async def _open_body(self) -> AsyncIterator[bytes] | None:
        if self._call.upload is not None:
            return _read_file(await self._ctx.file(self._call.upload))
        return None if self._call.body is None else one_chunk(self._call.body.content)

    async def _pass_on(self, response: UpstreamResponse, spool: Spool) -> ResponseHead:
        terms, ctx = self._terms, self._ctx
        status, headers = response.head
        if status in terms.retry_statuses and ctx.attempt <= terms.retries:
            after = _parse_retry_after(find_header(headers, "retry-after"))
            raise Retry(f"the upstream answered {status}", after=after)
        head = ResponseHead(status, end_to_end_headers(headers))
        if self._on_head is not None:
            await self._on_head(head)
        caller = self._caller = await connect_to_caller(
            self._call.line, ctx.job_id, head, terms.stall_s
        )
        async for chunk in response.chunks:
            spool.add(chunk)
            if caller is not None:
                await caller.send_chunk(chunk)
                self._check_caller(caller)
        if caller is not None:
            await caller.send(FrameType.END)
        return head

    def _check_caller(self, caller: ClientSocket) -> None:
        if not caller.is_open and self._terms.on_hangup == "cancel":
            raise Fail("caller-gone", "the caller disconnected before the response was complete")

    async def _store(self, head: ResponseHead, spool: Spool) -> StoredResponse:
        content = spool.content
        response = StoredResponse(
            status=head.status,
            headers=head.headers,
            size=spool.size,
            body=InlineBody.of(content) if content else None,
            artifact=content is None,
        )
        if content is None:
            async with asyncio.timeout(STORE_S):
                await self._ctx.artifact(BODY, spool.rewind(), _media_type(head))
        binding = self._binding._replace(owner=None)
        return self._encryption.encrypt_response(response, binding, owned=self._call.is_owned)

    async def _broken(self, code: str, message: str) -> Retry | Fail:
        """Return the outcome of a call that may or may not have had an effect."""
        if self._caller is not None:
            await self._caller.send(FrameType.BROKEN)
            return Fail(code, f"{message}; the caller already has the start of a response")
        if self._terms.repeatable:
            return Retry(message)
        return Fail(code, f"{message}; the call is not repeatable")


def make_traceparent(job_id: str, attempt: int) -> str:
    """Return a traceparent for a job that has none: one trace per job, one span per attempt."""
    trace = hashlib.sha256(job_id.encode()).hexdigest()[:32]
    span = hashlib.sha256(f"{job_id}/{attempt}".encode()).hexdigest()[:16]
    return f"00-{trace}-{span}-01"


def _parse_retry_after(value: str | None) -> float | None:
    if value is None or not _SECONDS.fullmatch(value.strip()):
        return None
    return min(MAX_RETRY_AFTER_S, float(value))


def _media_type(head: ResponseHead) -> str:
    try:
        return check_content_type(find_header(head.headers, "content-type"), "")
    except InvalidInput:
        return UNKNOWN_TYPE


async def _read_file(path: Path) -> AsyncIterator[bytes]:
    file = await asyncio.to_thread(path.open, "rb")
    with contextlib.closing(file):
        while piece := await asyncio.to_thread(partial(file.read, PIECE)):
            yield piece
