"""Asking a store that may never answer: one whose write lock a stopped process holds, say.

The question is asked in a thread of its own, and not waited for beyond a limit. Python joins the
threads of a loop's executor when it exits, so after a question that was left behind the process
has to end without that.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

# Longer than a connection to PostgreSQL is tried for, and than SQLite waits for a foreign lock.
LIMIT_S = 25.0


class CheckTimedOut(Exception):
    """The time ran out; a thread was left behind."""


def ask(question: Callable[[], Coroutine[Any, Any, T]], limit_s: float = LIMIT_S) -> T:
    """Run a coroutine and return what it returns, or raise what it raises; raises CheckTimedOut."""
    answers: queue.SimpleQueue[tuple[T | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((asyncio.run(question()), None))
        except Exception as error:  # noqa: BLE001 - raised again where it was asked
            answers.put((None, error))

    threading.Thread(target=run, name="doctor", daemon=True).start()
    try:
        answer, error = answers.get(timeout=limit_s)
    except queue.Empty:
        raise CheckTimedOut(f"no answer within {limit_s:g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # there is one where there is no error
