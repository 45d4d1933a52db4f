"""Runs a function in a process with a limit on CPU time."""

from __future__ import annotations

import multiprocessing
import resource
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

# A safety bound, many times what any sample needs; exponential and quadratic work exceeds it.
BASE_S = 5.0
MEMORY = 4_000_000_000  # the default of the surfaces


class TooSlow(AssertionError):
    """The function exceeded its CPU time and was killed."""


def within(seconds: float, function: Callable[..., Any], *arguments: object) -> Any:
    """Return the function's result; raise TooSlow if it takes more CPU time than `seconds`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([function.__module__])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(theirs, seconds, function, arguments))
    process.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = None
    process.join()
    if answer is None:
        raise TooSlow(f"killed ({process.exitcode}): more than {seconds:g} s of CPU time")
    return answer


def _run(
    answer: Connection, seconds: float, function: Callable[..., Any], arguments: Sequence[object]
) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = round(used.ru_utime + used.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    answer.send(function(*arguments))
