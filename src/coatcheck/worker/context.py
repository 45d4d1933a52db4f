"""Context: what a handler gets beside its input.

What a job says of itself (progress, phase, log) is kept here and written by the worker a few times
a second at most, and in any case together with the job's end: a thousand calls cost few writes and
none is lost. A file that a job leaves behind is written away by the call that names it, which
returns once it is durable. Every call is also a point where a cancelled or timed-out handler stops:
an `async def` at its next await, a `def` at its next call of `ctx`.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import Future
from enum import StrEnum
from pathlib import Path
from typing import Any

from coatcheck.errors import BlobStoreUnavailable
from coatcheck.model.artifact import Artifact, check_content_type, check_name
from coatcheck.model.event import EventType, NewEvent
from coatcheck.model.job import Claim, Progress
from coatcheck.model.text import storable
from coatcheck.store.base import Report
from coatcheck.worker.outside import Data, Outside


class Interrupt(StrEnum):
    """Why a handler is told to stop before it is done."""

    CANCEL = "cancel"
    TIMEOUT = "timeout"
    DRAIN = "drain"
    LOST = "lost"


class Interrupted(BaseException):
    """Raised in a `def` handler at its next call of `ctx` once it was told to stop.

    Not an Exception, so that a handler's own `except Exception` does not swallow it.
    """


class _Done:
    """Something that can be awaited and is done already."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


_DONE = _Done()


def _plain(number: float | None) -> Any:
    # Whole numbers stay whole; what only behaves like a number (Decimal) becomes one.
    return number if number is None or isinstance(number, int) else float(number)


def _finite(fields: dict[str, object]) -> dict[str, object]:
    # NaN and infinity are not JSON; in a log their names say as much.
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


class Context:
    """A handler's view of its own job. In an `async def` handler its methods are awaited; in a
    `def` handler the same methods are simply called.
    """

    def __init__(
        self,
        claim: Claim,
        *,
        blocking: bool,
        on_report: Callable[[], None],
        outside: Outside | None = None,
    ) -> None:
        self._claim = claim
        self._blocking = blocking
        self._on_report = on_report
        self._outside = outside
        self._lock = threading.Lock()
        self._progress: Progress | None = None
        self._phase: str | None = None
        self._events: list[NewEvent] = []
        self._interrupt: Interrupt | None = None

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self._claim.lease.job_id

    @property
    def attempt(self) -> int:
        """Which attempt this is, from 1."""
        return self._claim.attempt

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop: cancelled, out of time, or its worker is going away."""
        return self._interrupt is not None

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> Awaitable[None]:
        """Say how far the job has come; the last word wins."""
        numbers = [float(number) for number in (done, total) if number is not None]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError(f"progress is told in numbers, not {done!r} of {total!r}")
        words = None if message is None else storable(message)
        with self._lock:
            self._progress = Progress(_plain(done), _plain(total), words)
        return self._said()

    def phase(self, name: str) -> Awaitable[None]:
        """Name what the job is doing now, such as "loading"."""
        with self._lock:
            self._phase = storable(name)
        return self._said()

    def log(self, message: str, **fields: object) -> Awaitable[None]:
        """Add a line to the job's own log, for whoever submitted it."""
        data = json.dumps({"message": message, **_finite(fields)}, default=str, ensure_ascii=False)
        with self._lock:
            self._events.append(NewEvent(EventType.LOG, storable(data)))
        return self._said()

    def artifact(self, name: str, data: Data, content_type: str | None = None) -> Any:
        """Leave a file behind, for whoever submitted the job; the last one under a name counts.

        `data` is bytes, a `pathlib.Path`, or a file open in binary mode, which is read as it is
        written away. Without a content type the name tells. Returns what was kept.
        """
        check_name(name)
        media_type = check_content_type(content_type, name)
        if not isinstance(data, (bytes, bytearray, memoryview, Path)) and not hasattr(data, "read"):
            what = type(data).__name__
            raise TypeError(
                f"an artifact is bytes, a pathlib.Path or a file open in binary mode, not {what}"
            )
        if self._blocking:
            self._said()
            return self._ask().keep_artifact(self._claim, name, data, media_type).result()
        return self._keep_artifact(name, data, media_type)

    async def _keep_artifact(self, name: str, data: Data, content_type: str) -> Artifact:
        await self._said()
        keeping = self._ask().keep_artifact(self._claim, name, data, content_type)
        return await asyncio.wrap_future(keeping)

    def _ask(self) -> Outside:
        if self._outside is None:
            raise BlobStoreUnavailable("files cannot be kept here")
        return self._outside

    def _said(self) -> Awaitable[None]:
        self._on_report()
        if self._blocking:
            if self._interrupt is not None:
                raise Interrupted(self._interrupt)
            return _DONE
        return asyncio.sleep(0)

    # --- for the worker

    def interrupt(self, why: Interrupt) -> None:
        """Tell the handler to stop."""
        self._interrupt = why

    def read_input(self) -> Future[str]:
        """Read the input of the job, which is kept apart."""
        return self._ask().read_input(self._claim)

    def repeat(self, report: Report) -> None:
        """Say what the handler has said in another process."""
        with self._lock:
            self._progress = report.progress or self._progress
            self._phase = report.phase or self._phase
            self._events += report.events
        self._on_report()

    def take_report(self) -> Report | None:
        """Return what was said since the last time, if anything was."""
        with self._lock:
            if self._progress is None and self._phase is None and not self._events:
                return None
            report = Report(self._progress, self._phase, tuple(self._events))
            self._progress, self._phase = None, None
            self._events.clear()
        return report
