"""Raw socket connections to a real server."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from coatcheck import Client
from tests.cli.processes import Running
from tests.client.test_client import PATIENCE_S


@pytest.fixture
def connection(server: Running) -> socket.socket:
    address = urlsplit(server.url())
    return socket.create_connection((address.hostname, address.port), timeout=PATIENCE_S)


def test_job_runs_even_if_the_submitter_disconnects(connection: socket.socket, pipe: Path) -> None:
    with connection:
        connection.sendall(_submission("meet", str(pipe)))

    # Opening the pipe waits for the handler at the other end: without the job, for ever.
    with pipe.open("w") as writing:
        writing.write("nobody waits for this")


def test_job_continues_if_the_waiter_disconnects(
    connection: socket.socket, client: Client, pipe: Path
) -> None:
    handle = client.submit("meet", str(pipe))
    with pipe.open("w") as writing:
        with connection:
            request = f"GET /v1/jobs/{handle.id}?wait=60 HTTP/1.1\r\nHost: localhost\r\n\r\n"
            connection.sendall(request.encode())
        assert handle.refresh()["state"] == "running"
        writing.write("went on")

    assert handle.result(timeout=PATIENCE_S) == "went on"
    assert handle.job["attempt"] == 1


def test_declared_oversized_body_is_rejected_before_it_is_sent(
    connection: socket.socket,
) -> None:
    with connection:
        connection.sendall(
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
        )
        answer = _read_all(connection)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"urn:coatcheck:too-large" in answer


def test_rebound_host_is_rejected(connection: socket.socket) -> None:
    with connection:
        connection.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        )
        answer = _read_all(connection)

    assert answer.startswith(b"HTTP/1.1 403 ")


def test_server_header_is_not_sent(connection: socket.socket) -> None:
    with connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = _read_all(connection)

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nserver:" not in answer.lower()


def _submission(kind: str, value: str) -> bytes:
    body = json.dumps({"kind": kind, "input": value}).encode()
    return (
        b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )


def _read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    pieces = []
    while piece := connection.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)
