"""Doing a job: find a seat at a target, have the model loaded, make the call.

A job that finds no target goes back to its queue, and so does one that finds every seat taken where
its model is. Neither counts as an attempt, and both show as `queued`, as before. A job with a seat
is `loading` until its model is in memory, then `working`.

A model is loaded by a call of our own, which asks for nothing but that, and only where the target
says that it is not loaded. So one can see when the loading ends, whether the answer is streamed or
not.

Who sits where is decided by places (engine/resources.py): however many workers there are, a seat
has one job. The kind's own limit, as many as there are seats, keeps the others from being claimed
at all.

A target that falls asleep in the middle of an answer says nothing, for as long as anybody listens.
So while nothing comes it is looked at now and then; one that cannot be reached twice in a row is
not listened to any more.

A call that breaks off counts as an attempt only if the target answers a probe right after the
break. If it does not, the target went away and the job waits for it, as for any target that is
unreachable. If it does, the job itself may have broken the call: FOREMAN_MAX_ATTEMPTS bounds that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from coatcheck.errors import Fail, Retry
from coatcheck.relay.call import ResponseHead, StoredResponse
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.handler import CallTerms, relay_call
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    UpstreamRequest,
    UpstreamResponse,
)
from coatcheck.surfaces.foreman.busy_backoff import BusyBackoff
from coatcheck.surfaces.foreman.call import ModelCall
from coatcheck.surfaces.foreman.constants import KIND, LOADING, SEATS, WORKING
from coatcheck.surfaces.foreman.models import canonical
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.stream_merge import (
    EVENTS,
    JSON,
    NDJSON,
    last_line_of,
    media_type_of,
)
from coatcheck.surfaces.foreman.targets import ModelTarget, ModelTargets, NoTargetReachable, seats
from coatcheck.surfaces.foreman.upstream_paths import GENERATE
from coatcheck.worker.steps.context import Context

# Statuses after which the same call may well work: a job is tried again while it may be.
RETRIED = frozenset({429, 500, 502, 503, 504})
# While a model is loaded for a caller who wants it gone afterwards.
WHILE_LOADING = "5m"
MISSED_AT_MOST = 2
_TAIL = 64 * 1024
_SHOWN = 500
# The code of a job whose call the target has refused begins so; the status follows.
REFUSED = "ollama-"
TOO_LATE = "upstream-timeout"
STREAM_FAILED = "ollama-stream"

Handler = Callable[[Context, ModelCall], Awaitable[StoredResponse]]


def handler_with(
    settings: ForemanSettings, targets: ModelTargets, secrecy: Callable[[], CallEncryption]
) -> Handler:
    """Make the handler that does jobs for Ollama."""
    terms = CallTerms(
        KIND,
        timeout_s=settings.timeout_s,
        retries=settings.max_attempts - 1,
        retry_statuses=RETRIED,
        repeatable=True,  # it only says something
        on_hangup="cancel" if settings.cancels_on_hangup else "continue",
    )

    standing = BusyBackoff()

    async def ask_model(ctx: Context, call: ModelCall) -> StoredResponse:
        """Have a model answer."""
        target = await _seat(ctx, call.model, targets, settings.per_target, standing)
        await ctx.phase(LOADING)
        listening = _Listening(target, settings.poll_s)
        try:
            await _load(target, call, settings, listening)
            await ctx.phase(WORKING)
            answer = await relay_call(ctx, call, listening, terms, secrecy(), on_head=_check_head)
        except Retry as error:
            if await _went_away(target, error):
                raise Retry(error.message, after=target.pause_s, counts=False) from error
            if isinstance(error.__cause__, TimeoutError) and ctx.attempt >= settings.max_attempts:
                raise Fail(TOO_LATE, error.message) from error
            raise
        _check(answer, listening.tail, repeatable=call.line is None)
        return answer

    return ask_model


async def _seat(
    ctx: Context, model: str, targets: ModelTargets, per_target: int, standing: BusyBackoff
) -> ModelTarget:
    try:
        found = await targets.having(model)
    except NoTargetReachable as error:
        raise Retry(str(error), after=error.after, counts=False) from error
    named = seats(found, per_target)
    taken = await ctx.acquire_one(SEATS, list(named))
    if taken is None:
        after = standing.turned_away(canonical(model), ctx.job_id)
        raise Retry("every target that has the model is busy", after=after, counts=False)
    standing.seated(canonical(model), ctx.job_id)
    return named[taken]


async def _went_away(target: ModelTarget, error: Retry) -> bool:
    """Tell whether a call failed because its target could not be reached, or cannot any more: one
    that was cut off or timed out is followed by a probe.
    """
    if not error.counts:
        return True
    if not isinstance(error.__cause__, CallBroken | TimeoutError):
        return False
    return not (await target.look_now()).reachable


async def _load(
    target: ModelTarget, call: ModelCall, settings: ForemanSettings, listening: _Listening
) -> None:
    """Have the model loaded where it is not; what the target says against it, it says to the call
    itself once more.
    """
    name = canonical(call.model)
    if name in target.seen.resident or name not in (target.seen.models or ()):
        return
    stays = settings.keep_alive if settings.keep_alive not in (0, "0") else WHILE_LOADING
    asked: dict[str, Any] = {"model": call.model, "keep_alive": stays, "stream": False}
    if call.options:
        asked["options"] = call.options
    content = json.dumps(asked).encode()
    headers = [("accept", "application/json"), ("content-type", "application/json")]
    outgoing = UpstreamRequest("POST", GENERATE, headers, len(content))
    try:
        async with (
            asyncio.timeout(settings.timeout_s),
            listening.call(outgoing, _once(content)) as incoming,
        ):
            async for _ in incoming.chunks:
                continue
    except TargetUnreachable as error:
        raise Retry(f"the target cannot be reached: {error}", counts=False) from error
    except CallBroken as error:
        raise Retry(f"the model could not be loaded: {error}") from error
    except TimeoutError as error:
        raise Retry("the model took too long to load") from error
    await target.look_now()


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


class _Listening:
    """An upstream that is not listened to for ever, and whose last words are remembered."""

    def __init__(self, target: ModelTarget, poll_s: float) -> None:
        self._target = target
        self._poll_s = poll_s
        self._heard = False
        self._tail = bytearray()

    @property
    def tail(self) -> bytes:
        """The end of the last answer, or all of it where it is short."""
        return bytes(self._tail[-_TAIL:])

    def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AbstractAsyncContextManager[UpstreamResponse]:
        """Make a call."""
        return self._call(call, body)

    @contextlib.asynccontextmanager
    async def _call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        self._tail.clear()
        patience = asyncio.timeout(None)
        try:
            async with patience:
                watching = asyncio.create_task(self._watch(patience))
                try:
                    async with self._target.call(call, body) as incoming:
                        yield incoming._replace(chunks=self._heard_of(incoming.chunks))
                finally:
                    watching.cancel()
        except TimeoutError:
            if not patience.expired():
                raise
            raise CallBroken("it does not answer any more") from None

    async def _heard_of(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._heard = True
            self._tail += chunk
            if len(self._tail) > 2 * _TAIL:
                del self._tail[:-_TAIL]
            yield chunk

    async def _watch(self, patience: asyncio.Timeout) -> None:
        missed = 0
        while missed < MISSED_AT_MOST:
            self._heard = False
            await asyncio.sleep(self._poll_s)
            if not self._heard:
                missed = 0 if (await self._target.look_now()).reachable else missed + 1
        patience.reschedule(asyncio.get_running_loop().time())


async def _check_head(head: ResponseHead) -> None:
    """Raise Retry where what answers is not Ollama: before its caller hears anything of it."""
    if head.status < 400 and media_type_of(head.headers) not in (JSON, NDJSON, EVENTS):
        raise Retry("what answered there is not Ollama")


def _check(answer: StoredResponse, tail: bytes, *, repeatable: bool) -> None:
    """Raise where the target has refused the call, or has failed in the middle of its answer: its
    caller has been told, and the job has not done what it was for.
    """
    if answer.status >= 400:
        raise Fail(f"{REFUSED}{answer.status}", error_in(tail) or f"it answered {answer.status}")
    media = media_type_of(answer.headers)
    if media == JSON and answer.size <= len(tail) and not _is_json(tail):
        words = "what it answered is not JSON"
        raise Retry(words) if repeatable else Fail("not-json", words)
    if media == NDJSON:
        last = last_line_of(tail)
        if last is not None and "error" in last:
            raise Fail(STREAM_FAILED, str(last["error"])[:_SHOWN])


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def error_in(said: bytes) -> str | None:
    """Return what an error says, as Ollama or its OpenAI routes write it."""
    try:
        found = json.loads(said)["error"]
    except (ValueError, TypeError, KeyError):
        return None
    if isinstance(found, dict):
        found = found.get("message")
    return str(found)[:_SHOWN] if found else None
