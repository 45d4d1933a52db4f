"""Calls to real servers: to the checked address, under the requested name."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coatcheck.egress.outbound import OutboundClient, OutboundResponse
from coatcheck.egress.policy import EgressPolicy
from coatcheck.egress.resolver import SystemResolver
from coatcheck.errors import EgressDenied, EgressFailed
from tests.egress.servers import Heard, Names, certificate, serving

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
HERE = ["127.0.0.1"]


@asynccontextmanager
async def calling(
    names: Names | None = None, allow: str = "127.0.0.1", context: ssl.SSLContext | None = None
) -> AsyncIterator[OutboundClient]:
    outbound = OutboundClient(EgressPolicy(allow, names or Names(HERE)), context)
    try:
        yield outbound
    finally:
        await outbound.close()


async def post(outbound: OutboundClient, url: str, **options: Any) -> OutboundResponse:
    options = {"timeout_s": 5.0, "max_bytes": 1000} | options
    return await outbound.send("POST", url, {"x-test": "1"}, b"{}", **options)


async def test_the_name_is_resolved_once_and_stays_in_the_host_header() -> None:
    heard, names = Heard(), Names(HERE, ["10.0.0.1"])
    async with serving(OK, heard) as port, calling(names) as outbound:
        answer = await post(outbound, f"http://hook.example:{port}/in?a=b")
    assert (answer.status, answer.body, answer.truncated) == (200, b"hello", False)
    assert names.asked == 1
    [request] = heard.requests
    assert request.startswith(b"POST /in?a=b HTTP/1.1\r\n")
    assert f"host: hook.example:{port}\r\n".encode() in request.lower()


async def test_a_name_that_is_rebound_after_the_check_is_not_called() -> None:
    # Public when the endpoint was created; this machine when it is called.
    heard, names = Heard(), Names(["93.184.216.34"], HERE)
    async with serving(OK, heard) as port, calling(names, allow="") as outbound:
        url = f"http://hook.example:{port}/"
        await outbound.policy.check_resolved(url)
        with pytest.raises(EgressDenied):
            await post(outbound, url)
    assert (names.asked, heard.connections) == (2, 0)


async def test_addresses_are_tried_in_turn() -> None:
    heard = Heard()
    names = Names(["127.0.0.9", "127.0.0.1"])  # nobody listens at the first
    async with serving(OK, heard) as port, calling(names, "127.0.0.0/8") as outbound:
        assert (await post(outbound, f"http://hook.example:{port}/")).status == 200


async def test_tls_verifies_the_name(tmp_path: Path) -> None:
    heard = Heard()
    server, trusting = certificate(tmp_path, "hook.example")
    server.sni_callback = lambda _socket, name, _context: heard.sni.append(name)
    async with (
        serving(OK, heard, server) as port,
        calling(context=trusting) as outbound,
    ):
        assert (await post(outbound, f"https://hook.example:{port}/")).status == 200
        with pytest.raises(EgressFailed, match="certificate"):
            await post(outbound, f"https://other.example:{port}/")
    assert heard.sni == ["hook.example", "other.example"]


async def test_a_redirect_is_returned() -> None:
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    heard = Heard()
    async with serving(moved, heard) as port, calling() as outbound:
        answer = await post(outbound, f"http://hook.example:{port}/")
    assert (answer.status, answer.headers["location"]) == (302, "http://127.0.0.1:1/")
    assert len(heard.requests) == 1


async def test_the_response_body_is_limited() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()

    async with serving(endless, Heard()) as port, calling() as outbound:
        answer = await post(outbound, f"http://hook.example:{port}/", max_bytes=100)
    assert (answer.body, answer.truncated) == (b"x" * 100, True)


async def test_endless_headers_are_cut_off() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x-y: " + b"z" * 65536 + b"\r\n")
            await writer.drain()

    async with serving(endless, Heard()) as port, calling() as outbound:
        with pytest.raises(EgressFailed):
            await post(outbound, f"http://hook.example:{port}/")


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
async def test_a_stalled_response_times_out(sent: bytes) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await reader.read()

    async with serving(silent, Heard()) as port, calling() as outbound:
        with pytest.raises(EgressFailed, match=r"within 0\.2 s"):
            await post(outbound, f"http://hook.example:{port}/", timeout_s=0.2)


@pytest.mark.parametrize("answer", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nbad\x00: x\r\n\r\n"])
async def test_an_invalid_response_is_a_failure(answer: bytes) -> None:
    async with serving(answer, Heard()) as port, calling() as outbound:
        with pytest.raises(EgressFailed):
            await post(outbound, f"http://hook.example:{port}/")


async def test_a_refused_connection_is_a_failure() -> None:
    async with serving(OK, Heard()) as port:
        pass
    async with calling() as outbound:
        with pytest.raises(EgressFailed, match="the connection failed"):
            await post(outbound, f"http://hook.example:{port}/")


async def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard()
    async with serving(OK, heard) as port, calling() as outbound:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
        assert (await post(outbound, f"http://hook.example:{port}/")).status == 200


async def test_concurrent_lookups_of_a_name_are_shared() -> None:
    check_resolved = SystemResolver()
    answers = await asyncio.gather(*(check_resolved("localhost", 80) for _ in range(200)))
    assert {"127.0.0.1"} <= set(answers[0]) and len({tuple(found) for found in answers}) == 1
    with pytest.raises(OSError):
        await check_resolved("nothing.invalid", 80)
