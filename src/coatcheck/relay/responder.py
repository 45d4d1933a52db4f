"""Answering whoever makes a call: with what comes down the line, with what was kept, or with 202.

`Reception.receive` is the whole of it for a door: it takes a line for the call, has the door submit
it, waits as long as the door's manners say, and returns the response.
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
from coatcheck.relay.intake import StoredRequest, give_up
from coatcheck.relay.replay import StreamedResponse, answer_kept, sent_headers
from coatcheck.relay.server_socket import PendingCall, SocketServer

FOREVER_S = 10 * 365 * 86_400.0

Submit = Callable[[Submission], Awaitable[Submitted]]


class CallerWait(NamedTuple):
    """How long a caller waits for an answer, and what to say of its wishes."""

    seconds: float | None  # None: as long as it takes
    headers: Pairs


def wait_of(request: Request, usual_s: float | None) -> CallerWait:
    """Return how long a caller waits: as it prefers, within bounds, else as is usual here."""
    preference = read_preference(request)
    said = [(name.lower(), value) for name, value in preference.headers.items()]
    if "wait=" in preference.applied:
        longest = MAX_WAIT_S if usual_s is None else max(MAX_WAIT_S, usual_s)
        return CallerWait(min(float(preference.wait_s), longest), said)
    if "respond-async" in preference.applied:
        return CallerWait(0.0, said)
    return CallerWait(usual_s, said)


def failed_as_problem(job: Job) -> Response:
    """Tell somebody who waited that there is no answer."""
    extra = {"job": job.id}
    headers = {"Coatcheck-Job": job.id}
    if job.state is State.CANCELLED:
        words = f"job {job.id} was cancelled"
        return problem_response(503, "job-cancelled", words, extra=extra, headers=headers)
    code = "job-failed" if job.error is None else job.error.code
    late = job.reason is Reason.TIMEOUT or code == "upstream-timeout"
    said = "no error was kept" if job.error is None else job.error.message
    return problem_response(504 if late else 502, code, said, extra=extra, headers=headers)


@dataclass(frozen=True, slots=True)
class ResponderOptions:
    """How a door treats those who wait."""

    accepted: Callable[[Job, Pairs], Response]  # 202: come back later
    failed: Callable[[Job], Response] = failed_as_problem
    on_hangup: OnHangup = "continue"
    stall_s: float = STALL_S


class Responder:
    """Where the callers of one process wait."""

    def __init__(self, secrecy: CallEncryption) -> None:
        self.secrecy = secrecy
        self._switchboard = SocketServer()

    async def receive(
        self,
        request: Request,
        engine: Engine,
        taken: StoredRequest,
        submit: Submit,
        wait: CallerWait,
        manners: ResponderOptions,
    ) -> Response:
        """Make a job of a call, and answer its caller."""
        job_id = engine.new_id()
        expected = None
        if wait.seconds is None or wait.seconds > 0:
            expected = await self._switchboard.expect(job_id)
        line = None if expected is None else expected.socket
        waiting = _Waiting(request, engine, self.secrecy, wait, manners, expected)
        try:
            asked = taken.submission(self.secrecy, job_id, line)
            job = await _submitted(engine, taken, submit, asked)
            return await waiting.answer(job)
        finally:
            waiting.leave()


async def _submitted(
    engine: Engine, taken: StoredRequest, submit: Submit, asked: Submission
) -> Job:
    """Make a job of a call; what was taken in for one that became none is removed."""
    try:
        [job], replayed = await submit(asked)
    except BaseException:
        await asyncio.shield(give_up(engine, taken))
        raise
    if replayed:
        await give_up(engine, taken)
        if job.labels.get(OWNER) != asked.labels.get(OWNER):
            raise KeyReused("this idempotency key was used for another request")
    return job


class _Waiting:
    """One caller who waits."""

    def __init__(
        self,
        request: Request,
        engine: Engine,
        secrecy: CallEncryption,
        wait: CallerWait,
        manners: ResponderOptions,
        expected: PendingCall | None,
    ) -> None:
        self._request = request
        self._engine = engine
        self._secrecy = secrecy
        self._wait = wait
        self._manners = manners
        self._expected = expected  # None once it was handed to the response
        self._tasks: list[asyncio.Task[object]] = []

    def leave(self) -> None:
        """Wait for nothing any more."""
        for task in self._tasks:
            task.cancel()
        if self._expected is not None:
            self._expected.hang_up()

    async def answer(self, job: Job) -> Response:
        """Wait for whatever comes first."""
        seconds = self._wait.seconds
        if job.state.is_terminal:
            return await self._ended(job)
        if seconds == 0:
            return self._manners.accepted(job, self._wait.headers)
        gone = asyncio.create_task(_disconnected(self._request))
        limit = FOREVER_S if seconds is None else seconds
        ended = asyncio.create_task(self._engine.wait_for_job(job, limit))
        # For as long as a head may come; a line that breaks before that is as good as none.
        dialled = asyncio.create_task(self._dialled())
        self._tasks += [gone, ended, dialled]
        await asyncio.wait({gone, ended, dialled}, return_when=asyncio.FIRST_COMPLETED)
        expire_confirmation()
        if dialled.done() and (head := dialled.result()) is not None:
            await ensure_confirmed()
            return self._passed_on(job, head, gone)
        if gone.done():
            await self._hung_up(job)
            raise ClientDisconnect
        await asyncio.wait({gone, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            await self._hung_up(job)
            raise ClientDisconnect
        job = ended.result()
        await ensure_confirmed()
        if job.state.is_terminal:
            return await self._ended(job)
        return self._manners.accepted(job, self._wait.headers)

    async def _dialled(self) -> ResponseHead | None:
        if self._expected is not None:
            with contextlib.suppress(SocketBroken):
                return await self._expected.head()
        await asyncio.Event().wait()
        return None

    async def _ended(self, job: Job) -> Response:
        if job.state is State.SUCCEEDED:
            extra = self._wait.headers
            return await answer_kept(self._engine, self._request, job, self._secrecy, extra)
        return self._manners.failed(job)

    def _passed_on(self, job: Job, head: ResponseHead, gone: asyncio.Task[None]) -> Response:
        expected, self._expected = self._expected, None
        assert expected is not None, "it was dialled"
        self._tasks.remove(gone)

        async def on_gone() -> None:
            await self._hung_up(job)

        async def on_lost() -> None:
            await self._engine.cancel(job.id, job.tenant)

        return StreamedResponse(
            expected,
            head,
            sent_headers(head, job, self._wait.headers),
            gone=gone,
            stall_s=self._manners.stall_s,
            on_gone=on_gone,
            on_lost=on_lost,
        )

    async def _hung_up(self, job: Job) -> None:
        if self._manners.on_hangup == "cancel":
            await self._engine.cancel(job.id, job.tenant)


async def _disconnected(request: Request) -> None:
    """Wait until the caller has left; its body has been read."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
