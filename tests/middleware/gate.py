"""A gate: an endpoint in another process reports its arrival and waits until it is released."""

from __future__ import annotations

import asyncio
import os
import socket

PORT = "TEST_GATE_PORT"
PATIENCE_S = 60.0


class Arrival:
    """An endpoint that waits at the gate."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.settimeout(PATIENCE_S)
        with connection.makefile() as lines:
            self.says = lines.readline().strip()

    def let_go(self) -> None:
        """Release it."""
        self._connection.sendall(b"g")
        self._connection.close()

    def wait_until_gone(self) -> None:
        """Wait until it stops waiting without being released."""
        with self._connection:
            assert self._connection.recv(1) == b""


class Gate:
    """The test's end of the gate."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(PATIENCE_S)
        self._connections: list[socket.socket] = []
        self.port = self._listening.getsockname()[1]

    def arrival(self) -> Arrival:
        """Wait for an endpoint to arrive."""
        connection, _ = self._listening.accept()
        self._connections.append(connection)
        return Arrival(connection)

    def close(self) -> None:
        for each in (self._listening, *self._connections):
            each.close()


async def pass_gate(says: str) -> None:
    """Report arrival and wait to be released: the endpoint's end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ[PORT]))
    try:
        writer.write(f"{says}\n".encode())
        assert await reader.read(1) == b"g"
    finally:
        writer.close()


def pass_gate_blocking(says: str) -> None:
    """Do the same, blocking the thread."""
    with socket.create_connection(("127.0.0.1", int(os.environ[PORT]))) as connection:
        connection.sendall(f"{says}\n".encode())
        assert connection.recv(1) == b"g"
