"""From one event loop to another, which another thread runs."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def on_loop(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """Have a coroutine run on a loop, and wait for it here; who is cancelled here cancels it."""
    if loop is asyncio.get_running_loop():
        return await work
    try:
        in_progress = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:
        work.close()  # that loop is closed: nothing will ever run it
        raise
    return await asyncio.wrap_future(in_progress)
