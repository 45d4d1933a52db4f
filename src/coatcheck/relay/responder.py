"""Responding to the caller of a relayed call: with the streamed response, the stored one, or a 202.

An entry point calls `Responder.respond`. It registers the call at the socket, has the entry point
submit the job, waits as long as the options say, and returns the response.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from coatcheck.engine.confirmation import ensure_confirmed, expire_confirmation
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import KeyReused
from coatcheck.http.errors import problem_response
from coatcheck.http.request.prefer import MAX_WAIT_S, read_preference
from coatcheck.model.job import Job
from coatcheck.model.state import Reason, State
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.client_socket import STALL_S
from coatcheck.relay.credentials import OWNER, CallEncryption
from coatcheck.relay.frames import SocketBroken
from coatcheck.relay.handler import OnHangup
from coatcheck.relay.headers import Pairs
from coatcheck.relay.intake import StoredRequest, discard_request
from coatcheck.relay.replay import StreamedResponse, replay_response, response_headers
from coatcheck.relay.server_socket import PendingCall, SocketServer

FOREVER_S = 10 * 365 * 86_400.0

Submit = Callable[[Submission], Awaitable[Submitted]]


class CallerWait(NamedTuple):
    """How long a caller waits for a response, and the headers that confirm its preference."""

    seconds: float | None  # None: without limit
    headers: Pairs


def read_caller_wait(request: Request, default_s: float | None) -> CallerWait:
    """Return how long a caller waits: as its `Prefer` header says, within bounds, or the
    default.
    """
    preference = read_preference(request)
    headers = [(name.lower(), value) for name, value in preference.headers.items()]
    if "wait=" in preference.applied:
        longest = MAX_WAIT_S if default_s is None else max(MAX_WAIT_S, default_s)
        return CallerWait(min(float(preference.wait_s), longest), headers)
    if "respond-async" in preference.applied:
        return CallerWait(0.0, headers)
    return CallerWait(default_s, headers)


def failure_problem(job: Job) -> Response:
    """Return the problem document for a caller whose job ended without a response."""
    extra = {"job": job.id}
    headers = {"Coatcheck-Job": job.id}
    if job.state is State.CANCELLED:
        message = f"job {job.id} was cancelled"
        return problem_response(503, "job-cancelled", message, extra=extra, headers=headers)
    code = "job-failed" if job.error is None else job.error.code
    timed_out = job.reason is Reason.TIMEOUT or code == "upstream-timeout"
    message = "no error was recorded" if job.error is None else job.error.message
    return problem_response(504 if timed_out else 502, code, message, extra=extra, headers=headers)


@dataclass(frozen=True, slots=True)
class ResponderOptions:
    """The options of an entry point for waiting callers."""

    accepted: Callable[[Job, Pairs], Response]  # builds the 202
    failed: Callable[[Job], Response] = failure_problem
    on_hangup: OnHangup = "continue"
    stall_s: float = STALL_S


class Responder:
    """Responds to the callers of one process."""

    def __init__(self, encryption: CallEncryption) -> None:
        self.encryption = encryption
        self._sockets = SocketServer()

    async def respond(
        self,
        request: Request,
        engine: Engine,
        stored: StoredRequest,
        submit: Submit,
        wait: CallerWait,
        options: ResponderOptions,
    ) -> Response:
        """Submit a stored request as a job, and return the response for its caller."""
        job_id = engine.new_id()
        pending = None
        if wait.seconds is None or wait.seconds > 0:
            pending = await self._sockets.register(job_id)
        socket = None if pending is None else pending.socket
        caller = _WaitingCaller(request, engine, self.encryption, wait, options, pending)
        try:
            submission = stored.to_submission(self.encryption, job_id, socket)
            job = await _submit_stored(engine, stored, submit, submission)
            return await caller.wait_for_response(job)
        finally:
            caller.close()


async def _submit_stored(
    engine: Engine, stored: StoredRequest, submit: Submit, submission: Submission
) -> Job:
    """Submit a stored request, and delete it if it became no job."""
    try:
        [job], replayed = await submit(submission)
    except BaseException:
        await asyncio.shield(discard_request(engine, stored))
        raise
    if replayed:
        await discard_request(engine, stored)
        if job.labels.get(OWNER) != submission.labels.get(OWNER):
            raise KeyReused("this idempotency key was used for another request")
    return job


class _WaitingCaller:
    """One caller who waits for a response."""

    def __init__(
        self,
        request: Request,
        engine: Engine,
        encryption: CallEncryption,
        wait: CallerWait,
        options: ResponderOptions,
        pending: PendingCall | None,
    ) -> None:
        self._request = request
        self._engine = engine
        self._encryption = encryption
        self._wait = wait
        self._options = options
        self._pending = pending  # None once a response streams from it
        self._tasks: list[asyncio.Task[object]] = []

    def close(self) -> None:
        """Stop waiting."""
        for task in self._tasks:
            task.cancel()
        if self._pending is not None:
            self._pending.close()

    async def wait_for_response(self, job: Job) -> Response:
        """Wait for a head on the socket, the end of the job, or the end of the wait."""
        seconds = self._wait.seconds
        if job.state.is_terminal:
            return await self._finished(job)
        if seconds == 0:
            return self._options.accepted(job, self._wait.headers)
        disconnected = asyncio.create_task(_wait_for_disconnect(self._request))
        limit = FOREVER_S if seconds is None else seconds
        finished = asyncio.create_task(self._engine.wait_for_job(job, limit))
        # Pending as long as a head may arrive; a socket that breaks before that is ignored.
        head_received = asyncio.create_task(self._wait_for_head())
        self._tasks += [disconnected, finished, head_received]
        await asyncio.wait(
            {disconnected, finished, head_received}, return_when=asyncio.FIRST_COMPLETED
        )
        expire_confirmation()
        if head_received.done() and (head := head_received.result()) is not None:
            await ensure_confirmed()
            return self._stream(job, head, disconnected)
        if disconnected.done():
            await self._on_disconnect(job)
            raise ClientDisconnect
        await asyncio.wait({disconnected, finished}, return_when=asyncio.FIRST_COMPLETED)
        if not finished.done():
            await self._on_disconnect(job)
            raise ClientDisconnect
        job = finished.result()
        await ensure_confirmed()
        if job.state.is_terminal:
            return await self._finished(job)
        return self._options.accepted(job, self._wait.headers)

    async def _wait_for_head(self) -> ResponseHead | None:
        if self._pending is not None:
            with contextlib.suppress(SocketBroken):
                return await self._pending.head()
        await asyncio.Event().wait()
        return None

    async def _finished(self, job: Job) -> Response:
        if job.state is State.SUCCEEDED:
            extra = self._wait.headers
            return await replay_response(self._engine, self._request, job, self._encryption, extra)
        return self._options.failed(job)

    def _stream(self, job: Job, head: ResponseHead, disconnected: asyncio.Task[None]) -> Response:
        pending, self._pending = self._pending, None
        assert pending is not None, "the head came from it"
        self._tasks.remove(disconnected)

        async def on_disconnect() -> None:
            await self._on_disconnect(job)

        async def on_lost() -> None:
            await self._engine.cancel(job.id, job.tenant)

        return StreamedResponse(
            pending,
            head,
            response_headers(head, job, self._wait.headers),
            disconnected=disconnected,
            stall_s=self._options.stall_s,
            on_disconnect=on_disconnect,
            on_lost=on_lost,
        )

    async def _on_disconnect(self, job: Job) -> None:
        if self._options.on_hangup == "cancel":
            await self._engine.cancel(job.id, job.tenant)


async def _wait_for_disconnect(request: Request) -> None:
    """Wait until the caller has disconnected. Its body has been read already."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
