"""An unreachable server raises an error with a clear message."""

from __future__ import annotations

import socket
import ssl

import httpx2
import pytest

from coatcheck import Unreachable
from tests.cli.processes import Running
from tests.client.both import Connect, FakeTime
from tests.client.faulty_proxy import Fault, FaultyProxy
from tests.client.script import Play, Script


@pytest.fixture
def nobody() -> str:
    """An address at which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}"


def said(connect: Connect, url: str) -> str:
    with pytest.raises(Unreachable) as unreachable:
        connect(url, retry_for=0).submit("echo")
    prefix = f"cannot reach the server at {url}: "
    assert str(unreachable.value).startswith(prefix)
    return str(unreachable.value).removeprefix(prefix)


def test_connection_refused(connect: Connect, nobody: str) -> None:
    assert said(connect, nobody) == (
        "the connection was refused; is the server running, and is the address right?"
    )


def test_unknown_host(connect: Connect) -> None:
    assert "name" in said(connect, "http://nowhere.invalid")


def test_dropped_connection(connect: Connect, server: Running) -> None:
    with FaultyProxy(server.url(), [Fault.REFUSED]) as proxy:
        sentence = said(connect, proxy.url)
    assert sentence == "the connection was lost before the response was complete"


def test_server_without_tls(connect: Connect, server: Running) -> None:
    assert said(connect, server.url().replace("http:", "https:"))


def test_silent_server(connect: Connect) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match="the response timed out"):
            connect(url, retry_for=0, timeout=0.5).get("7")


def test_untrusted_certificate_is_not_retried(play: Play, fake: FakeTime) -> None:
    untrusted = ssl.SSLCertVerificationError(1, "certificate verify failed")
    untrusted.verify_message = "self-signed certificate"
    error = httpx2.ConnectError("certificate verify failed")
    error.__cause__ = untrusted

    for call in ("get", "wait"):
        with pytest.raises(Unreachable, match=r"not trusted \(self-signed certificate\)"):
            getattr(play(Script(error)), call)("7")

    assert fake.pauses == []
