"""A way to the server that can break at the worst moment.

It passes bytes on in both directions. Told so, it waits for the server to say that a statement of a
certain kind is done, keeps that answer to itself and cuts the connection: what was asked for has
happened, and whoever asked never hears of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import asyncpg

PORT_FILE = ".s.PGSQL.5432"

_WHY = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection due to administrator command\0\0"
GOODBYE = b"E" + struct.pack("!i", 4 + len(_WHY)) + _WHY


async def backends(dsn: str) -> set[int]:
    """Return which connections the server has beside the one that asks."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity "
            "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
    finally:
        await connection.close()
    return {row[0] for row in rows}


async def terminate(dsn: str, *pids: int) -> None:
    """Have the server end connections."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM unnest($1::int[]) pid", pids
        )
    finally:
        await connection.close()


class Proxy:
    """A socket beside the server's own, through which the connections of a store can go."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        options = dict(parse_qsl(parts.query))
        self._host = options.pop("host", parts.hostname or "localhost")
        self._port = int(options.pop("port", parts.port or 5432))
        self._folder = tempfile.TemporaryDirectory(prefix="proxy-")
        # The same server, role and database, through the socket here; which speaks no TLS.
        who = parts.netloc.rpartition("@")[0]
        options |= {"host": self._folder.name, "sslmode": "disable"}
        self.dsn = f"{parts.scheme}://{who}@{parts.path}?{urlencode(options)}"
        self._answer: bytes | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()
        self.has_cut = asyncio.Event()
        self.cuts = 0

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_unix_server(
            self._connect, f"{self._folder.name}/{PORT_FILE}"
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listening.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._folder.cleanup()

    def cut_on(self, done: str) -> None:
        """Keep the next answer that says this is done (such as COMMIT), and cut."""
        self.has_cut.clear()
        self._answer = done.encode() + b"\0"

    async def say_goodbye(self) -> None:
        """Tell every client what a server that ends its connection says, and close a bit later.

        Returns when they have heard it and their connections are still open.
        """
        for writer in self._clients:
            writer.write(GOODBYE)
            asyncio.get_running_loop().call_later(0.1, writer.transport.abort)
        for _ in range(5):
            await asyncio.sleep(0)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        self._clients.add(writer)
        task.add_done_callback(self._connections.discard)
        server_reader, server_writer = await self._connect_to_server()
        pumps = [
            asyncio.create_task(self._pump(reader, server_writer, watched=False)),
            asyncio.create_task(self._pump(server_reader, writer, watched=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._clients.discard(writer)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in (server_writer, writer):
                end.transport.abort()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _connect_to_server(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._host.startswith("/"):
            return await asyncio.open_unix_connection(f"{self._host}/.s.PGSQL.{self._port}")
        return await asyncio.open_connection(self._host, self._port)

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, watched: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if watched and self._answer is not None and self._answer in data:
                    self._answer = None
                    self.cuts += 1
                    self.has_cut.set()
                    return
                target.write(data)
                await target.drain()
