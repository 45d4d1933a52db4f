"""Notice an API process that lives and does not answer.

The supervisor sends a small HTTP request to the socket that the API listens on, three times per
`hang_s`. Any response counts as an answer, whatever its status: the process accepts connections,
and its event loop runs. The request names no endpoint that does work (OPTIONS). After `MISSES`
probes in a row without an answer the API hangs: its loop is blocked, it is stopped, or it is out
of file descriptors. An API that has not answered yet since its start may be migrating its database,
and is left alone.

A probe never blocks. `look` is called when a descriptor in `waits_for` is ready, or after `due`
seconds. It reads an answer that has arrived before it judges the deadline, so a supervisor that was
itself suspended does not blame the API.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from ipaddress import ip_address

MISSES = 3
_ANSWER = b"HTTP/"


class ApiProbe:
    """Probes one address, over and over."""

    def __init__(self, listening: socket.socket, hang_s: float) -> None:
        host, port, *rest = listening.getsockname()
        if ip_address(host).is_unspecified:
            host = "::1" if ":" in host else "127.0.0.1"
        self._family = listening.family
        self._address = (host, port, *rest)
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._request = (
            f"OPTIONS /healthz HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode()
        )
        self._every_s = hang_s / MISSES
        self._socket: socket.socket | None = None
        self._is_sent = False
        self._has_answered = False
        self._at = 0.0  # when to begin the next probe, or to give up the one under way
        self.misses = 0

    @property
    def is_hung(self) -> bool:
        """Whether the API answered once, and no longer does."""
        return self._has_answered and self.misses >= MISSES

    def start_over(self, now: float) -> None:
        """Probe another process from now on."""
        self._close()
        self._has_answered = False
        self.misses = 0
        self._at = now + self._every_s

    def waits_for(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return the sockets that should become readable, and those that should become writable."""
        if self._socket is None:
            return [], []
        return ([self._socket], []) if self._is_sent else ([], [self._socket])

    def due(self, now: float) -> float:
        """Return in how many seconds `look` should be called at the latest."""
        return max(0.0, self._at - now)

    def look(self, now: float) -> bool:
        """Go on with the probe as far as possible without waiting.

        Returns whether the process has just answered for the first time.
        """
        if self._socket is None:
            if now >= self._at:
                self._begin(now)
            return False
        try:
            answered = self._exchange(self._socket)
        except OSError:
            answered = False
        if answered is None and now < self._at:
            return False
        self._close()
        if not answered:
            self.misses += 1
            # A connection that was refused at once says no more than one that is silent.
            self._at = max(now, self._at)
            return False
        is_first = not self._has_answered
        self._has_answered = True
        self.misses = 0
        self._at = now + self._every_s
        return is_first

    def _begin(self, now: float) -> None:
        self._at = now + self._every_s
        self._is_sent = False
        self._socket = socket.socket(self._family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        code = self._socket.connect_ex(self._address)
        if code not in (0, errno.EINPROGRESS):
            self._close()
            self.misses += 1

    def _exchange(self, connection: socket.socket) -> bool | None:
        """Send the request, read the answer; None: neither is possible yet."""
        with contextlib.suppress(BlockingIOError):
            if not self._is_sent:
                connection.send(self._request)
                self._is_sent = True
            return connection.recv(len(_ANSWER)) == _ANSWER
        return None

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
