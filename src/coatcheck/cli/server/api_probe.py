"""ApiProbe: detects an API process that is alive but does not respond.

The supervisor sends a small HTTP request to the API's socket, three times per `hang_s`. Any
response counts, whatever its status: the process accepts connections and its event loop runs. The
request (OPTIONS) does no work. After `MISSES` consecutive probes without a response the API is
hung: its event loop is blocked, the process is stopped, or it is out of file descriptors. An API
that has not responded since its start may be migrating the database and is not killed.

A probe never blocks. The supervisor calls `advance` when a socket of `wanted_sockets` is ready, or
after `due` seconds. `advance` reads a response that has arrived before it checks the deadline, so
that a suspended supervisor does not blame the API.
"""

from __future__ import annotations

import contextlib
import errno
import socket
from ipaddress import ip_address

MISSES = 3
_RESPONSE = b"HTTP/"


class ApiProbe:
    """Probes one address repeatedly."""

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
        self._has_responded = False
        self._at = 0.0  # when to start the next probe, or to give up the current one
        self.misses = 0

    @property
    def is_hung(self) -> bool:
        """Whether the API has responded before and no longer does."""
        return self._has_responded and self.misses >= MISSES

    def reset(self, now: float) -> None:
        """Start again with a new process."""
        self._close()
        self._has_responded = False
        self.misses = 0
        self._at = now + self._every_s

    def wanted_sockets(self) -> tuple[list[socket.socket], list[socket.socket]]:
        """Return the sockets to wait on for reading and for writing."""
        if self._socket is None:
            return [], []
        return ([self._socket], []) if self._is_sent else ([], [self._socket])

    def due(self, now: float) -> float:
        """Return the seconds until `advance` must be called."""
        return max(0.0, self._at - now)

    def advance(self, now: float) -> bool:
        """Advance the probe without blocking.

        Return whether the process has just responded for the first time.
        """
        if self._socket is None:
            if now >= self._at:
                self._connect(now)
            return False
        try:
            responded = self._exchange(self._socket)
        except OSError:
            responded = False
        if responded is None and now < self._at:
            return False
        self._close()
        if not responded:
            self.misses += 1
            # A refused connection counts like a silent one; keep the same interval.
            self._at = max(now, self._at)
            return False
        is_first = not self._has_responded
        self._has_responded = True
        self.misses = 0
        self._at = now + self._every_s
        return is_first

    def _connect(self, now: float) -> None:
        self._at = now + self._every_s
        self._is_sent = False
        self._socket = socket.socket(self._family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        code = self._socket.connect_ex(self._address)
        if code not in (0, errno.EINPROGRESS):
            self._close()
            self.misses += 1

    def _exchange(self, connection: socket.socket) -> bool | None:
        """Send the request and read the response; return None if that would block."""
        with contextlib.suppress(BlockingIOError):
            if not self._is_sent:
                connection.send(self._request)
                self._is_sent = True
            return connection.recv(len(_RESPONSE)) == _RESPONSE
        return None

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
