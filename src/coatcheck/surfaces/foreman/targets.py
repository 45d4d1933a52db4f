"""The targets: where they are, whether they can be reached, what they have and what is loaded.

A target is a laptop as often as a server: it sleeps, and wakes when somebody opens its lid. So not
to be reached is no error but a state. While it lasts a target is looked for at times that lie
further and further apart, up to the poll interval, and in between nobody tries: all that wait for
it come back at the same moment, and so in their old order.

Every process has its own picture of the targets, made from what they say of themselves
(`/api/tags`, `/api/ps`) and from how calls to them went. A picture may be a moment old. The worst
that comes of it is that a job is sent where its model has to be loaded first.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from coatcheck.relay.headers import Pairs
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.upstream import (
    CallBroken,
    TargetUnreachable,
    UpstreamRequest,
    UpstreamResponse,
)
from coatcheck.surfaces.foreman.models import canonical
from coatcheck.surfaces.foreman.settings import ForemanSettings
from coatcheck.surfaces.foreman.upstream_paths import PS, TAGS, check_upstream_path

# How long a target has to answer when it is looked at, and to be connected to.
LOOK_S = 5.0
CONNECT_S = 5.0
# A picture of this age is as good as a new one.
FRESH_S = 1.0
FIRST_PAUSE_S = 1.0
MOST_BYTES = 8 * 1024 * 1024
NEVER = float("-inf")


class TargetStatus(NamedTuple):
    """A target as it was when it was last looked at."""

    at: float = NEVER
    reachable: bool = False
    models: frozenset[str] | None = None  # None: it has never said
    resident: frozenset[str] = frozenset()
    why: str = "it has not been looked at yet"

    def may_have(self, model: str) -> bool:
        """Tell whether the target has said that it has a model, or nothing at all."""
        return self.models is None or model in self.models


class NoTargetReachable(Exception):
    """No target that may have the model can be reached; it is worth looking again `after` so many
    seconds.
    """

    def __init__(self, words: str, after: float) -> None:
        super().__init__(words)
        self.after = after


class ModelTarget:
    """One server with models."""

    def __init__(self, url: str, token: str, poll_s: float) -> None:
        self.url = url
        self.name = urlsplit(url).netloc
        self.seen = TargetStatus()
        self.in_progress = 0  # calls of this process that are
        self._poll_s = poll_s
        self._upstream = HttpUpstream(url, connect_s=CONNECT_S)
        self._headers: Pairs = [("authorization", f"Bearer {token}")] if token else []
        self._failures = 0
        self._look_at = NEVER

    # --- calling

    @contextlib.asynccontextmanager
    async def call(
        self, call: UpstreamRequest, body: AsyncIterator[bytes] | None
    ) -> AsyncIterator[UpstreamResponse]:
        """Call a path of the list with the operator's token; raises as an upstream does."""
        check_upstream_path(call.path)
        named = [pair for pair in call.headers if pair[0] != "authorization"]
        outgoing = call._replace(headers=[*named, *self._headers])
        self.in_progress += 1
        try:
            async with self._upstream.call(outgoing, body) as incoming:
                yield incoming
        except TargetUnreachable as error:
            self.is_away(str(error))
            raise
        finally:
            self.in_progress -= 1

    async def ask(self, path: str, asked: Any = None) -> tuple[int, Any]:
        """Make a call of our own and return its status and what it says, as JSON; raises
        TargetUnreachable, CallBroken.
        """
        content = b"" if asked is None else json.dumps(asked).encode()
        headers = [("accept", "application/json"), ("content-type", "application/json")]
        method = "GET" if asked is None else "POST"
        outgoing = UpstreamRequest(method, path, headers, len(content))
        body = _once(content) if content else None
        async with self.call(outgoing, body) as (head, chunks):
            said = bytearray()
            async for chunk in chunks:
                said += chunk
                if len(said) > MOST_BYTES:
                    raise CallBroken("it says more than it should")
        try:
            return head.status, json.loads(said)
        except ValueError:
            raise CallBroken("what it says is not JSON") from None

    # --- looking

    async def look(self, *, urgent: bool = False) -> TargetStatus:
        """Return how the target is; where that is not known well enough it is asked. One that is
        away is left alone for its pause, unless somebody waits for the answer.
        """
        now, seen = time.monotonic(), self.seen
        known = now - seen.at <= FRESH_S
        if known or (not seen.reachable and now < self._look_at and not urgent):
            return seen
        return await self.look_now()

    async def look_now(self) -> TargetStatus:
        """Ask the target what it has and what is loaded."""
        try:
            async with asyncio.timeout(LOOK_S):
                tags, running = await asyncio.gather(self._names(TAGS), self._names(PS))
        except (TargetUnreachable, CallBroken) as error:
            self.is_away(str(error))
        except TimeoutError:
            self.is_away("it does not answer")
        else:
            self._failures = 0
            self.seen = TargetStatus(time.monotonic(), True, tags, running, "")
        return self.seen

    async def _names(self, path: str) -> frozenset[str]:
        status, said = await self.ask(path)
        try:
            if status == 200:
                return frozenset(canonical(each["name"]) for each in said["models"])
        except (TypeError, KeyError, AttributeError):
            pass
        raise CallBroken("what answers there is not Ollama")

    def is_away(self, why: str) -> None:
        """Note that the target could not be reached, or does not answer as it should."""
        now = time.monotonic()
        if now >= self._look_at:
            pause = min(self._poll_s, FIRST_PAUSE_S * 2 ** min(self._failures, 30))
            self._failures += 1
            self._look_at = now + pause
        self.seen = self.seen._replace(
            at=now, reachable=False, resident=frozenset(), why=why or "it cannot be reached"
        )

    @property
    def pause_s(self) -> float:
        """In how many seconds a target that is away is looked for again."""
        return max(0.0, self._look_at - time.monotonic())


class ModelTargets:
    """All of them."""

    def __init__(self, settings: ForemanSettings) -> None:
        self._all = [ModelTarget(url, settings.token, settings.poll_s) for url in settings.targets]
        self._by_url = {target.url: target for target in self._all}

    def __iter__(self) -> Any:
        return iter(self._all)

    def __getitem__(self, url: str) -> ModelTarget:
        return self._by_url[url]

    async def look(self, *, urgent: bool = False) -> list[ModelTarget]:
        """Look at all of them, and return those that can be reached, the least busy first."""
        await asyncio.gather(*(target.look(urgent=urgent) for target in self._all))
        found = [target for target in self._all if target.seen.reachable]
        return sorted(found, key=lambda target: target.in_progress)

    async def having(self, model: str, *, urgent: bool = False) -> list[ModelTarget]:
        """Return the targets a call for a model can be sent to: first those where it is loaded, and
        of them the least busy. Raises NoTargetReachable.

        Where every target says that it does not have the model, any may say so to the caller.
        """
        there = await self.look(urgent=urgent)
        name = canonical(model)
        found = [target for target in there if name in (target.seen.models or ())]
        if found:
            return sorted(found, key=lambda target: name not in target.seen.resident)
        away = [
            target
            for target in self._all
            if not target.seen.reachable and target.seen.may_have(name)
        ]
        if not away and there:
            return there
        waited_for = away or self._all
        words = "; ".join(f"{target.name}: {target.seen.why}" for target in waited_for[:3])
        raise NoTargetReachable(
            f"the target cannot be reached ({words})", min(each.pause_s for each in waited_for)
        )

    @property
    def resident(self) -> set[str]:
        """The models that were loaded somewhere at the last look."""
        return {model for target in self._all for model in target.seen.resident}

    @property
    def are_away(self) -> bool:
        """Whether one of them could not be reached at the last look."""
        return any(not target.seen.reachable for target in self._all)


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def seats(targets: Sequence[ModelTarget], per_target: int) -> dict[str, ModelTarget]:
    """Name the seats at these targets, in the order in which they are to be taken: one at each,
    then the next at each, so that the least busy is taken.
    """
    return {f"{target.url} {number}": target for number in range(per_target) for target in targets}
