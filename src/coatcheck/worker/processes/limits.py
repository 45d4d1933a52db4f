"""How much memory a job may use.

The kernel is asked to refuse a process more writable private memory than it has when the job
starts, plus the limit (RLIMIT_DATA, Linux 4.7 or newer). What was imported and what earlier jobs
left behind does not count; stacks of new threads do, with 8 MB each. Address space (RLIMIT_AS)
would count reservations that are never used, such as 64 MB for each thread that allocates.

Python raises MemoryError where memory is refused; a library in C may crash instead. The limit is
for each process, so one that a handler starts has as much again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from coatcheck.model.handler import is_async

log = logging.getLogger(__name__)

_STATM = Path("/proc/self/statm")
_LONGEST = 256  # bytes of it
_DATA = 5  # the field of writable private memory, in pages


def with_limit(handler: Callable[..., Any], memory: int | None) -> Callable[..., Any]:
    """Return a handler that may use so much memory."""
    if memory is None:
        return handler
    if not _STATM.exists():
        log.warning("this system cannot limit memory", extra={"memory": memory})
        return handler
    limit = memory
    _statm()  # opened for good: a confined process may not find it later

    def limited(*arguments: Any) -> Any:
        with _limit(limit):
            return handler(*arguments)

    async def limited_async(*arguments: Any) -> Any:
        with _limit(limit):
            return await handler(*arguments)

    return limited_async if is_async(handler) else limited


@functools.cache
def _statm() -> int:
    return os.open(_STATM, os.O_RDONLY | os.O_CLOEXEC)


@contextlib.contextmanager
def _limit(memory: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    held = int(os.pread(_statm(), _LONGEST, 0).split()[_DATA]) * resource.getpagesize()
    others = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min([held + memory, *others]), hard))
    try:
        yield
    finally:
        # Whoever says what went wrong needs memory, too.
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
