"""Looking names up, so that a name server which does not answer holds up nobody else.

The system's lookup blocks a thread for as long as it likes. The loop's own threads are few, and
others wait for them, so each lookup gets a thread of its own; those who ask for the same name at
the same time share it. A lookup that was given up on goes on in its thread, and is still shared.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence

# Lookups under way at once; one more is refused, as if the name could not be resolved.
AT_ONCE = 64


class Lookups:
    """The lookups of one loop."""

    def __init__(self) -> None:
        self._in_progress: dict[tuple[str, int], asyncio.Future[list[str]]] = {}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Ask the system for the addresses of a name; raises OSError."""
        future = self._in_progress.get((host, port))
        if future is None:
            if len(self._in_progress) >= AT_ONCE:
                raise OSError("too many names are being looked up")
            loop = asyncio.get_running_loop()
            future = self._in_progress[host, port] = loop.create_future()
            future.add_done_callback(lambda _: self._in_progress.pop((host, port), None))
            thread = threading.Thread(target=_look, args=(host, port, loop, future), daemon=True)
            thread.start()
        return await asyncio.shield(future)


def _look(
    host: str, port: int, loop: asyncio.AbstractEventLoop, future: asyncio.Future[list[str]]
) -> None:
    found: list[str] | OSError
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = [str(place[0]) for *_, place in answers]
    except (OSError, UnicodeError) as error:
        found = OSError(str(error))
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(_tell, future, found)


def _tell(future: asyncio.Future[list[str]], found: list[str] | OSError) -> None:
    if isinstance(found, OSError):
        future.set_exception(found)
        future.exception()  # looked at, also where everybody has given up
    else:
        future.set_result(found)
