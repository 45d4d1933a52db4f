"""Signals inside one process: the receiving end of every store's wake-ups."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable

from coatcheck.store.base import Topic


class LoopSignal:
    """A Signal on one event loop. `set` may be called from any thread."""

    def __init__(self, topic: Topic, forget: Callable[[LoopSignal], None]) -> None:
        self.topic = topic
        self._forget = forget
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def set(self) -> None:
        """Wake the waiter, or make its next wait return at once."""
        if not self._event.is_set():
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._event.set)

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True if woken since the last wait, False after the timeout."""
        if timeout is None:
            await self._event.wait()
        else:
            try:
                async with asyncio.timeout(timeout):
                    await self._event.wait()
            except TimeoutError:
                return False
        self._event.clear()
        return True

    def close(self) -> None:
        """Unsubscribe."""
        self._forget(self)


class SignalHub:
    """The signals of one process, by topic. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._signals: dict[Topic, list[LoopSignal]] = {topic: [] for topic in Topic}

    def subscribe(self, topic: Topic, on_forget: Callable[[], None] = lambda: None) -> LoopSignal:
        """Create a signal. `on_forget` is called after the signal was closed."""

        def forget(signal: LoopSignal) -> None:
            with self._lock, contextlib.suppress(ValueError):
                self._signals[topic].remove(signal)
            on_forget()

        signal = LoopSignal(topic, forget)
        with self._lock:
            self._signals[topic].append(signal)
        return signal

    def wake(self, topics: Iterable[Topic]) -> None:
        """Set every signal of these topics."""
        with self._lock:
            signals = [signal for topic in topics for signal in self._signals[topic]]
        for signal in signals:
            signal.set()

    def is_wanted(self, topic: Topic) -> bool:
        """Return whether any signal is subscribed to a topic."""
        with self._lock:
            return bool(self._signals[topic])
