"""Noticing a handler that blocks the handlers' loop, and naming it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from coatcheck.worker.attempts.runners import AsyncRunner

log = logging.getLogger(__name__)

EVERY_S = 1.0
TOO_LONG_S = 1.0


async def watch_for_blocking(runner: AsyncRunner, anything_runs: Callable[[], bool]) -> None:
    """Ask the handlers' loop for a sign of life while jobs run; log who keeps it from answering."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(EVERY_S)
        if not anything_runs():
            continue
        answered = asyncio.Event()
        asked = loop.time()
        runner.ping(lambda answered=answered: loop.call_soon_threadsafe(answered.set))  # type: ignore[misc]  # bound now
        try:
            async with asyncio.timeout(TOO_LONG_S):
                await answered.wait()
        except TimeoutError:
            task, where = runner.busy_with()
            kind, _, job_id = task.partition(" ")
            log.error(
                "a handler blocks the loop of all async handlers: make it a def, or await",
                extra={"kind": kind, "job_id": job_id, "where": where},
            )
            await answered.wait()
            log.warning(
                "the handlers' loop goes on",
                extra={"kind": kind, "job_id": job_id, "blocked_s": round(loop.time() - asked, 1)},
            )
