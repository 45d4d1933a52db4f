"""The proxy that other tests break connections with, where the server is reached by TCP."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from .proxy import PORT_FILE, Proxy

pytestmark = pytest.mark.anyio


async def test_a_server_that_is_reached_by_tcp(dsn: str) -> None:
    parts = urlsplit(dsn)
    folder = parse_qs(parts.query).get("host")
    if folder is None:  # it is reached by TCP anyway
        await _ask(dsn)
        return

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, away = await asyncio.open_unix_connection(f"{folder[0]}/{PORT_FILE}")
        await asyncio.gather(_pump(reader, away), _pump(there, writer))

    async with await asyncio.start_server(pass_on, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        who = parts.netloc.rpartition("@")[0]
        await _ask(f"{parts.scheme}://{who}@127.0.0.1:{port}{parts.path}")


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


async def _ask(dsn: str) -> None:
    async with Proxy(dsn) as proxy:
        connection = await asyncpg.connect(proxy.dsn)
        assert await connection.fetchval("SELECT 6 * 7") == 42
        proxy.cut_on("SELECT 1")
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.execute("SELECT 1")
        assert proxy.cuts == 1
        connection.terminate()
