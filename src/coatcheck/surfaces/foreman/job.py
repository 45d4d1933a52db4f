"""The job handler: acquire a slot at a target, load the model, make the call.

A job without a reachable target returns to its queue, and so does one whose model's targets are all
busy. Neither counts as an attempt, and both still show as `queued`. A job with a slot is `loading`
until its model is in memory, then `working`.

A model is loaded by a separate call that does nothing else, and only if the target says that it is
not loaded. So the end of loading is visible, whether the response is streamed or not.

Slots are resources (engine/resources.py): however many workers there are, a slot has one job. The
kind's own concurrency limit, the number of slots, keeps other jobs from being claimed at all.

A target that goes to sleep in the middle of a response sends nothing, for as long as anybody reads.
So a silent target is probed periodically. If two probes in a row fail, the call is broken.

A broken call counts as an attempt only if the target answers a probe right after. If it does not,
the target went away, and the job waits for it as for any unreachable target. If it does, the job
itself may have broken the call, and FOREMAN_MAX_ATTEMPTS limits that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from coatcheck.errors import Fail, Retry
from coatcheck.relay.call import ResponseHead, StoredResponse
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.handler import CallTerms, relay_call
from coatcheck.relay.upstream import (
    CallBroken,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
    one_chunk,
)
from coatcheck.surfaces.foreman.call import ModelCall, canonical_name
from coatcheck.surfaces.foreman.constants import KIND, LOADING, SLOTS, WORKING
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.stream_merge import (
    EVENTS,
    JSON,
    NDJSON,
    media_type_of,
    parse_last_line,
)
from coatcheck.surfaces.foreman.targets import (
    ModelTarget,
    ModelTargets,
    NoTargetReachable,
    target_slots,
)
from coatcheck.surfaces.foreman.upstream_paths import GENERATE
from coatcheck.worker.steps.context import Context

# Statuses after which the same call may well work: the job is retried.
RETRIED = frozenset({429, 500, 502, 503, 504})
# While a model is loaded for a caller who wants it unloaded afterwards.
KEEP_ALIVE_WHILE_LOADING = "5m"
MAX_FAILED_PROBES = 2
# A job whose model's targets are busy is retried this soon if it is alone, and no later than this.
MIN_BACKOFF_S = 1.0
MAX_BACKOFF_S = 10.0
_TAIL = 64 * 1024
_MAX_MESSAGE = 500
# The error code of a call that the target rejected: this prefix and the status.
REJECTED = "ollama-"
TIMED_OUT = "upstream-timeout"
STREAM_FAILED = "ollama-stream"

Handler = Callable[[Context, ModelCall], Awaitable[StoredResponse]]


class BusyBackoff:
    """Retry delays of jobs whose model's targets are all busy, as far as this process knows them.

    With several targets, one can be free while the jobs at the front of the queue need models that
    only the others have. Each retry is a claim and a release, which costs a write or two. So the
    jobs of a model share the retries: the more there are, the later each comes back, and a slot
    that becomes free is still found within about a second.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._due: dict[str, dict[str, float]] = {}

    def add(self, model: str, job_id: str) -> float:
        """Add a job that got no slot; return the seconds until its retry."""
        now = self._monotonic()
        others = {
            other: due
            for other, due in self._due.get(model, {}).items()
            # Overdue for long: it was cancelled, or another process has it.
            if other != job_id and due + MAX_BACKOFF_S > now
        }
        after = min(MAX_BACKOFF_S, MIN_BACKOFF_S * (1 + len(others)))
        self._due[model] = {**others, job_id: now + after}
        return after

    def remove(self, model: str, job_id: str) -> None:
        """Remove a job that got a slot."""
        waiting = self._due.get(model)
        if waiting is not None:
            waiting.pop(job_id, None)
            if not waiting:
                del self._due[model]


def build_handler(
    settings: ForemanSettings, targets: ModelTargets, encryption: Callable[[], CallEncryption]
) -> Handler:
    """Build the handler of foreman's jobs."""
    terms = CallTerms(
        KIND,
        timeout_s=settings.timeout_s,
        retries=settings.max_attempts - 1,
        retry_statuses=RETRIED,
        repeatable=True,  # a model call has no side effects
        on_hangup="cancel" if settings.cancels_on_hangup else "continue",
    )
    backoff = BusyBackoff()

    async def call_model(ctx: Context, call: ModelCall) -> StoredResponse:
        """Call a model."""
        target = await _acquire_target(ctx, call.model, targets, settings.per_target, backoff)
        await ctx.phase(LOADING)
        upstream = _ProbedUpstream(target, settings.poll_s)
        try:
            await _load_model(target, call, settings, upstream)
            await ctx.phase(WORKING)
            response = await relay_call(
                ctx, call, upstream, terms, encryption(), on_head=_check_head
            )
        except Retry as error:
            if await _went_away(target, error):
                raise Retry(error.message, after=target.pause_s, counts=False) from error
            if isinstance(error.__cause__, TimeoutError) and ctx.attempt >= settings.max_attempts:
                raise Fail(TIMED_OUT, error.message) from error
            raise
        _check_response(response, upstream.tail, repeatable=call.line is None)
        return response

    return call_model


async def _acquire_target(
    ctx: Context, model: str, targets: ModelTargets, per_target: int, backoff: BusyBackoff
) -> ModelTarget:
    try:
        found = await targets.find(model)
    except NoTargetReachable as error:
        raise Retry(str(error), after=error.after, counts=False) from error
    slots = target_slots(found, per_target)
    acquired = await ctx.acquire_one(SLOTS, list(slots))
    if acquired is None:
        after = backoff.add(canonical_name(model), ctx.job_id)
        raise Retry("every target that has the model is busy", after=after, counts=False)
    backoff.remove(canonical_name(model), ctx.job_id)
    return slots[acquired]


async def _went_away(target: ModelTarget, error: Retry) -> bool:
    """Return whether a call failed because its target could not be reached, or cannot be reached
    now: after a broken or timed-out call, the target is probed.
    """
    if not error.counts:
        return True
    if not isinstance(error.__cause__, CallBroken | TimeoutError):
        return False
    return not (await target.probe()).reachable


async def _load_model(
    target: ModelTarget, call: ModelCall, settings: ForemanSettings, upstream: _ProbedUpstream
) -> None:
    """Load the model if it is not loaded. An error response is ignored: the target gives it again
    to the call itself.
    """
    name = canonical_name(call.model)
    if name in target.status.resident or name not in (target.status.models or ()):
        return
    unloads = settings.keep_alive in (0, "0")
    keep_alive = KEEP_ALIVE_WHILE_LOADING if unloads else settings.keep_alive
    body: dict[str, Any] = {"model": call.model, "keep_alive": keep_alive, "stream": False}
    if call.options:
        body["options"] = call.options
    content = json.dumps(body).encode()
    headers = [("accept", "application/json"), ("content-type", "application/json")]
    request = UpstreamRequest("POST", GENERATE, headers, len(content))
    try:
        async with (
            asyncio.timeout(settings.timeout_s),
            upstream.call(request, one_chunk(content)) as response,
        ):
            async for _ in response.chunks:
                continue
    except UpstreamUnreachable as error:
        raise Retry(f"the target cannot be reached: {error}", counts=False) from error
    except CallBroken as error:
        raise Retry(f"the model could not be loaded: {error}") from error
    except TimeoutError as error:
        raise Retry("the model took too long to load") from error
    await target.probe()


class _ProbedUpstream:
    """An upstream that is probed while it is silent, and that keeps the tail of its response."""

    def __init__(self, target: ModelTarget, poll_s: float) -> None:
        self._target = target
        self._poll_s = poll_s
        self._received = False
        self._tail = bytearray()

    @property
    def tail(self) -> bytes:
        """The end of the last response, or all of it if it is short."""
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
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                probing = asyncio.create_task(self._probe_while_silent(timeout))
                try:
                    async with self._target.call(call, body) as response:
                        yield response._replace(chunks=self._record(response.chunks))
                finally:
                    probing.cancel()
        except TimeoutError:
            if not timeout.expired():
                raise
            raise CallBroken("it stopped responding") from None

    async def _record(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._received = True
            self._tail += chunk
            if len(self._tail) > 2 * _TAIL:
                del self._tail[:-_TAIL]
            yield chunk

    async def _probe_while_silent(self, timeout: asyncio.Timeout) -> None:
        failed = 0
        while failed < MAX_FAILED_PROBES:
            self._received = False
            await asyncio.sleep(self._poll_s)
            if not self._received:
                failed = 0 if (await self._target.probe()).reachable else failed + 1
        timeout.reschedule(asyncio.get_running_loop().time())


async def _check_head(head: ResponseHead) -> None:
    """Raise Retry if the response is not from Ollama, before any of it reaches the caller."""
    if head.status < 400 and media_type_of(head.headers) not in (JSON, NDJSON, EVENTS):
        raise Retry("the response is not from Ollama")


def _check_response(response: StoredResponse, tail: bytes, *, repeatable: bool) -> None:
    """Raise if the target rejected the call or failed in the middle of its response: the caller has
    the error, and the job has failed.
    """
    if response.status >= 400:
        message = read_error(tail) or f"the target answered {response.status}"
        raise Fail(f"{REJECTED}{response.status}", message)
    media = media_type_of(response.headers)
    if media == JSON and response.size <= len(tail) and not _is_json(tail):
        message = "the response is not valid JSON"
        raise Retry(message) if repeatable else Fail("not-json", message)
    if media == NDJSON:
        last = parse_last_line(tail)
        if last is not None and "error" in last:
            raise Fail(STREAM_FAILED, str(last["error"])[:_MAX_MESSAGE])


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def read_error(content: bytes) -> str | None:
    """Return the message of an error in the format of Ollama or of its OpenAI routes."""
    try:
        error = json.loads(content)["error"]
    except (ValueError, TypeError, KeyError):
        return None
    if isinstance(error, dict):
        error = error.get("message")
    return str(error)[:_MAX_MESSAGE] if error else None
