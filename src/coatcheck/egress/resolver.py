"""Resolving names so that a name server that does not respond delays nobody else.

The system's lookup blocks a thread for an unknown time. The event loop's own threads are few and
shared, so each lookup gets a thread of its own. Concurrent lookups of the same name share one. A
lookup that was abandoned continues in its thread, and can still be shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence

# The maximum of concurrent lookups. Further ones fail as if the name could not be resolved.
MAX_LOOKUPS = 64


class SystemResolver:
    """The name lookups of one event loop."""

    def __init__(self) -> None:
        self._in_progress: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a name; raise OSError if it cannot be resolved."""
        future = self._in_progress.get((host, port))
        if future is None:
            if len(self._in_progress) >= MAX_LOOKUPS:
                raise OSError("too many concurrent name lookups")
            loop = asyncio.get_running_loop()
            future = self._in_progress[host, port] = loop.create_future()
            future.add_done_callback(lambda _: self._in_progress.pop((host, port), None))
            thread = threading.Thread(target=_lookup, args=(host, port, loop, future), daemon=True)
            thread.start()
        return await asyncio.shield(future)


def _lookup(
    host: str, port: int, loop: asyncio.AbstractEventLoop, future: asyncio.Future[list[str]]
) -> None:
    found: list[str] | OSError
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = [str(place[0]) for *_, place in answers]
    except (OSError, UnicodeError) as error:
        found = OSError(str(error))
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
        loop.call_soon_threadsafe(_complete, future, found)


def _complete(future: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
    if isinstance(found, OSError):
        future.set_exception(found)
        future.exception()  # retrieved, even if nobody waits any more
    else:
        future.set_result(found)
