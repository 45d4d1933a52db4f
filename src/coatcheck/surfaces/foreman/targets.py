"""The targets: their addresses, whether they can be reached, their models and the loaded ones.

A target is often a laptop: it sleeps, and wakes when somebody opens it. So being unreachable is a
state, not an error. While it lasts, a target is probed at growing intervals, up to the poll
interval, and nobody calls it in between: all jobs that wait for it come back at the same moment,
and so in their original order.

Every process has its own status of the targets, from their lists (`/api/tags`, `/api/ps`) and from
the outcome of calls. A status may be slightly out of date. At worst, a job is sent to a target that
has to load its model first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from coatcheck.relay.headers import Pairs
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.upstream import (
    CallBroken,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamUnreachable,
    one_chunk,
)
from coatcheck.surfaces.foreman.call import canonical_name
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.upstream_paths import PS, TAGS, check_upstream_path

# How long a target may take to answer a probe, and to be connected to.
PROBE_S = 5.0
CONNECT_S = 5.0
# A status of this age needs no new probe.
FRESH_S = 1.0
FIRST_PAUSE_S = 1.0
MAX_ANSWER = 8 * 1024 * 1024
NEVER = float("-inf")


class TargetStatus(NamedTuple):
    """The result of a target's last probe."""

    at: float = NEVER
    reachable: bool = False
    models: frozenset[str] | None = None  # None: unknown
    resident: frozenset[str] = frozenset()
    why: str = "it has not been probed yet"

    def may_have(self, model: str) -> bool:
        """Return whether the target has a model, or its models are unknown."""
        return self.models is None or model in self.models


class NoTargetReachable(Exception):
    """No target that may have the model can be reached; `after` is the number of seconds until the
    next probe.
    """

    def __init__(self, message: str, after: float) -> None:
        super().__init__(message)
        self.after = after


class ModelTarget:
    """One Ollama server."""

    def __init__(self, url: str, token: str, poll_s: float) -> None:
        self.url = url
        self.name = urlsplit(url).netloc
        self.status = TargetStatus()
        self.calls_in_progress = 0  # of this process
        self._poll_s = poll_s
        self._upstream = HttpUpstream(url, connect_s=CONNECT_S)
        self._headers: Pairs = [("authorization", f"Bearer {token}")] if token else []
        self._failures = 0
        self._next_probe = NEVER

    # --- calls

    @contextlib.asynccontextmanager
    async def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Call an allowed path with the operator's token; raises as an upstream does."""
        check_upstream_path(call.path)
        headers = [pair for pair in call.headers if pair[0] != "authorization"]
        request = call._replace(headers=[*headers, *self._headers])
        self.calls_in_progress += 1
        try:
            async with self._upstream.call(request, body) as response:
                yield response
        except UpstreamUnreachable as error:
            self.set_unreachable(str(error))
            raise
        finally:
            self.calls_in_progress -= 1

    async def fetch_json(self, path: str, data: Any = None) -> tuple[int, Any]:
        """Make a call of our own; return its status and its JSON. Raises UpstreamUnreachable,
        CallBroken.
        """
        content = b"" if data is None else json.dumps(data).encode()
        headers = [("accept", "application/json"), ("content-type", "application/json")]
        method = "GET" if data is None else "POST"
        request = UpstreamRequest(method, path, headers, len(content))
        body = one_chunk(content) if content else None
        async with self.call(request, body) as (head, chunks):
            answer = bytearray()
            async for chunk in chunks:
                answer += chunk
                if len(answer) > MAX_ANSWER:
                    raise CallBroken("its response is too large")
        try:
            return head.status, json.loads(answer)
        except ValueError:
            raise CallBroken("its response is not JSON") from None

    # --- status

    async def check(self, *, urgent: bool = False) -> TargetStatus:
        """Return the status, probing the target if it is not fresh. An unreachable target is not
        probed during its pause, unless a caller waits (`urgent`).
        """
        now, status = time.monotonic(), self.status
        is_fresh = now - status.at <= FRESH_S
        if is_fresh or (not status.reachable and now < self._next_probe and not urgent):
            return status
        return await self.probe()

    async def probe(self) -> TargetStatus:
        """Fetch the target's models and the loaded ones, and return its new status."""
        try:
            async with asyncio.timeout(PROBE_S):
                models, resident = await asyncio.gather(
                    self._fetch_names(TAGS), self._fetch_names(PS)
                )
        except (UpstreamUnreachable, CallBroken) as error:
            self.set_unreachable(str(error))
        except TimeoutError:
            self.set_unreachable("it does not answer")
        else:
            self._failures = 0
            self.status = TargetStatus(time.monotonic(), True, models, resident, "")
        return self.status

    async def _fetch_names(self, path: str) -> frozenset[str]:
        status, answer = await self.fetch_json(path)
        try:
            if status == 200:
                return frozenset(canonical_name(each["name"]) for each in answer["models"])
        except (TypeError, KeyError, AttributeError):
            pass
        raise CallBroken("its response is not from Ollama")

    def set_unreachable(self, why: str) -> None:
        """Record that the target cannot be reached, or does not answer as Ollama does."""
        now = time.monotonic()
        if now >= self._next_probe:
            pause = min(self._poll_s, FIRST_PAUSE_S * 2 ** min(self._failures, 30))
            self._failures += 1
            self._next_probe = now + pause
        self.status = self.status._replace(
            at=now, reachable=False, resident=frozenset(), why=why or "it cannot be reached"
        )

    @property
    def pause_s(self) -> float:
        """The seconds until an unreachable target is probed again."""
        return max(0.0, self._next_probe - time.monotonic())


class ModelTargets:
    """All targets."""

    def __init__(self, settings: ForemanSettings) -> None:
        self._all = [ModelTarget(url, settings.token, settings.poll_s) for url in settings.targets]
        self._by_url = {target.url: target for target in self._all}

    def __iter__(self) -> Iterator[ModelTarget]:
        return iter(self._all)

    def __getitem__(self, url: str) -> ModelTarget:
        return self._by_url[url]

    async def check_all(self, *, urgent: bool = False) -> list[ModelTarget]:
        """Check all targets; return the reachable ones, the least busy first."""
        await asyncio.gather(*(target.check(urgent=urgent) for target in self._all))
        reachable = [target for target in self._all if target.status.reachable]
        return sorted(reachable, key=lambda target: target.calls_in_progress)

    async def find(self, model: str, *, urgent: bool = False) -> list[ModelTarget]:
        """Return the targets for a call of a model: those that have it loaded first, and the least
        busy of them first. Raises NoTargetReachable.

        If every target says that it does not have the model, any of them may tell the caller.
        """
        reachable = await self.check_all(urgent=urgent)
        name = canonical_name(model)
        found = [target for target in reachable if name in (target.status.models or ())]
        if found:
            return sorted(found, key=lambda target: name not in target.status.resident)
        away = [
            target
            for target in self._all
            if not target.status.reachable and target.status.may_have(name)
        ]
        if not away and reachable:
            return reachable
        candidates = away or self._all
        reasons = "; ".join(f"{target.name}: {target.status.why}" for target in candidates[:3])
        raise NoTargetReachable(
            f"the target cannot be reached ({reasons})", min(each.pause_s for each in candidates)
        )

    @property
    def resident(self) -> set[str]:
        """The models that were loaded on any target at its last probe."""
        return {model for target in self._all for model in target.status.resident}

    @property
    def is_degraded(self) -> bool:
        """Whether a target could not be reached at its last probe."""
        return any(not target.status.reachable for target in self._all)


def target_slots(targets: Sequence[ModelTarget], per_target: int) -> dict[str, ModelTarget]:
    """Return the slots of these targets, in the order in which to acquire them: one of each target,
    then the next of each, so that the least busy target is used.
    """
    return {f"{target.url} {number}": target for number in range(per_target) for target in targets}
