"""A gate that holds a handler until a test opens it."""

from __future__ import annotations

import asyncio
import threading


class Gate:
    """Signals that a handler has begun, and holds it until the gate opens. Thread-safe."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun = asyncio.Event()
        self.stopped = asyncio.Event()
        self._open = threading.Event()

    def say_begun(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)

    def say_stopped(self) -> None:
        self._loop.call_soon_threadsafe(self.stopped.set)

    def hold(self) -> None:
        """Block the thread, like a handler that ignores interrupts."""
        self.say_begun()
        assert self._open.wait(30)

    async def hold_politely(self) -> None:
        """Wait without blocking the event loop, and notice a cancellation."""
        self.say_begun()
        try:
            await asyncio.Event().wait()
        finally:
            self.say_stopped()

    def open(self) -> None:
        self._open.set()
