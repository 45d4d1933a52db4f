"""The supervisor restarts a hung API process."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from coatcheck.cli.server.api_probe import MISSES, ApiProbe
from tests.cli.proc_files import children_of
from tests.cli.processes import PATIENCE_S, running

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def _stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)


def _take_descriptors(pid: int) -> None:
    # As a command did to the API before the sandbox denied it.
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))


@linux
@pytest.mark.parametrize("harm", [_stop, _take_descriptors])
def test_hung_api_is_restarted(
    tmp_path: Path, app_reference: str, harm: Callable[[int], None]
) -> None:
    arguments = ("serve", app_reference, "--port", "0")
    with running(*arguments, folder=tmp_path, COATCHECK_HANG_S="3") as server:
        url = server.url()
        hung = next(pid for pid, argv in children_of(server.pid).items() if "--no-worker" in argv)
        server.stderr.wait_for('"process responds"')
        harm(hung)
        said = json.loads(server.stderr.wait_for('"process hung"'))
        assert (said["child"], said["child_pid"]) == ("api", hung)
        assert said["missed_probes"] == MISSES
        ended = json.loads(server.stderr.wait_for("process exited; restarting"))
        assert (ended["child"], ended["exit_code"]) == ("api", -signal.SIGKILL)
        # Connections wait in the kernel's queue until the next process accepts them.
        httpx2.get(f"{url}/healthz", timeout=PATIENCE_S).raise_for_status()
        children = children_of(server.pid)
        assert hung not in children
        assert len(children) == 2


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE_S)
        yield listening


def _answer(listening: socket.socket, with_: bytes) -> bytes:
    with closing(listening.accept()[0]) as connection:
        connection.settimeout(PATIENCE_S)
        request = connection.recv(1024)
        connection.sendall(with_)
    return request


def _probe(probe: ApiProbe, now: float, listening: socket.socket, with_: bytes) -> bool:
    """Have one probe answered: begin it, send the request, read what comes back."""
    probe.advance(now)
    probe.advance(now)
    request = _answer(listening, with_)
    assert request.startswith(b"OPTIONS /healthz HTTP/1.1\r\nHost: 127.0.0.1:")
    connection = probe.wanted_sockets()[0][0]
    connection.setblocking(True)
    assert connection.recv(1, socket.MSG_PEEK) or not with_
    connection.setblocking(False)
    return probe.advance(now)


def test_any_response_counts_and_only_the_first_is_reported(listening: socket.socket) -> None:
    probe = ApiProbe(listening, hang_s=3)
    probe.reset(0)
    assert not probe.advance(0.5), "not due yet"
    assert probe.wanted_sockets() == ([], [])
    assert _probe(probe, 1, listening, b"HTTP/1.1 503 Service Unavailable\r\n\r\n")
    assert not _probe(probe, 2, listening, b"HTTP/1.1 200 OK\r\n\r\n")
    assert not probe.is_hung


def test_silence_counts_only_after_a_first_response(listening: socket.socket) -> None:
    probe = ApiProbe(listening, hang_s=3)
    probe.reset(0)
    for now in range(1, 20):
        probe.advance(now)
    assert probe.misses > MISSES
    assert not probe.is_hung
    probe.reset(20)


def test_three_consecutive_misses_are_a_hang(listening: socket.socket) -> None:
    probe = ApiProbe(listening, hang_s=3)
    probe.reset(0)
    _probe(probe, 1, listening, b"HTTP/1.1 200 OK\r\n\r\n")
    _probe(probe, 2, listening, b"")  # closed without an answer
    assert probe.misses == 1
    _probe(probe, 3, listening, b"HTTP/1.1 200 OK\r\n\r\n")
    assert probe.misses == 0
    for missed in range(MISSES):
        assert not probe.is_hung
        probe.advance(4 + missed)  # begins
        probe.advance(5 + missed)  # gives up
        assert probe.misses == missed + 1
    assert probe.is_hung
    probe.reset(10)
    assert not probe.is_hung


def test_pending_response_is_read_before_the_deadline_is_checked(
    listening: socket.socket,
) -> None:
    probe = ApiProbe(listening, hang_s=3)
    probe.reset(0)
    probe.advance(1)
    probe.advance(1)
    _answer(listening, b"HTTP/1.1 200 OK\r\n\r\n")
    connection = probe.wanted_sockets()[0][0]
    connection.setblocking(True)
    assert connection.recv(1, socket.MSG_PEEK)
    connection.setblocking(False)
    assert probe.advance(1_000_000), "this process was suspended for long"
    assert probe.misses == 0
