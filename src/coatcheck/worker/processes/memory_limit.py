"""The memory limit of a job.

The kernel refuses a process more writable private memory than it had when the job started, plus the
limit (RLIMIT_DATA, Linux 4.7 or newer). Imported modules and leftovers of earlier jobs do not
count; stacks of new threads do, with 8 MB each. Address space (RLIMIT_AS) would count reservations
that are never used, such as 64 MB for each thread that allocates.

Python raises MemoryError if memory is refused; a C library may crash instead. The limit applies to
each process, so a program that a handler starts has the same limit again.
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
    """Return a handler whose memory is limited."""
    if memory is None:
        return handler
    if not _STATM.exists():
        log.warning("memory limit not supported on this system", extra={"memory": memory})
        return handler
    limit = memory
    _statm()  # kept open: a confined process may not be able to open it later

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
        # Reporting the failure needs memory, too.
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
