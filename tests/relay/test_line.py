"""The line itself: who may dial, what may be said, and what happens when an end is gone."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.client_socket import dial
from coatcheck.relay.frames import FrameType, SocketBroken, frame
from coatcheck.relay.server_socket import PendingCall, SocketServer, UpstreamBroke

pytestmark = pytest.mark.anyio

HEAD = ResponseHead(200, [("x-one", "1")])
JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def expected() -> PendingCall:
    found = await SocketServer().expect(JOB)
    assert found is not None
    return found


async def test_what_is_said_at_one_end_is_heard_at_the_other() -> None:
    waiting = await expected()
    line = await dial(waiting.socket, JOB, HEAD)
    assert line is not None
    assert await waiting.head() == HEAD
    body = b"one" + b"x" * 2_500_000

    async def say() -> None:
        await line.chunk(body)
        await line.say(FrameType.END)

    saying = asyncio.create_task(say())
    assert b"".join([chunk async for chunk in waiting.chunks()]) == body
    await saying
    line.close()
    waiting.hang_up()


async def test_a_ticket_is_good_for_one_dial() -> None:
    waiting = await expected()
    assert await dial(waiting.socket, "another job", HEAD) is None
    first = await dial(waiting.socket, JOB, HEAD)
    assert first is not None
    assert await dial(waiting.socket, JOB, HEAD) is None
    first.close()
    waiting.hang_up()


async def test_nobody_is_there_any_more() -> None:
    waiting = await expected()
    waiting.hang_up()
    assert await dial(waiting.socket, JOB, HEAD) is None
    assert await dial("f" * 32, JOB, HEAD) is None
    assert await dial(None, JOB, HEAD) is None


async def test_a_key_that_is_lost_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(socket_folder, "folder", lambda: tmp_path)
    board = SocketServer()
    for _ in range(2):
        waiting = await board.expect(JOB)
        assert waiting is not None
        line = await dial(waiting.socket, JOB, HEAD)
        assert line is not None
        line.close()
        waiting.hang_up()
        key = tmp_path / socket_folder.KEY
        assert key.stat().st_mode & 0o077 == 0
        socket_folder.remove_dead(tmp_path)
        key.unlink()  # as something that clears temporary files would


async def test_an_end_that_is_gone_is_noticed() -> None:
    waiting = await expected()
    line = await dial(waiting.socket, JOB, HEAD)
    assert line is not None
    await waiting.head()
    waiting.hang_up()
    while line.is_open:
        await line.chunk(b"more")
    await line.chunk(b"said into the air")


async def test_a_worker_that_says_it_broke_and_one_that_is_lost() -> None:
    for last, error in ((FrameType.BROKE, UpstreamBroke), (None, SocketBroken)):
        waiting = await expected()
        line = await dial(waiting.socket, JOB, HEAD)
        assert line is not None
        await waiting.head()
        if last is not None:
            await line.say(last)
        line.close()
        with pytest.raises(error):
            _ = [chunk async for chunk in waiting.chunks()]
        waiting.hang_up()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, frame(FrameType.END)]
)
async def test_garbage_in_place_of_a_head_is_no_answer(garbage: bytes) -> None:
    waiting = await expected()
    place = socket_folder.folder()
    assert place is not None
    reader, writer = await asyncio.open_unix_connection(place / waiting.socket)
    ticket = socket_folder.ticket_of(place, waiting.socket, JOB)
    assert ticket is not None
    writer.write(frame(FrameType.TICKET, ticket.encode()))
    await reader.read(1)
    writer.write(garbage)
    writer.write_eof()
    with pytest.raises(SocketBroken):
        await waiting.head()
    writer.close()
    waiting.hang_up()


async def test_a_reader_who_takes_nothing_counts_as_gone() -> None:
    waiting = await expected()
    line = await dial(waiting.socket, JOB, HEAD, stall_s=0.05)
    assert line is not None
    await waiting.head()
    while line.is_open:  # the buffers between are filled, and then nothing moves
        await line.chunk(b"x" * 65_536)
    waiting.hang_up()


async def test_a_folder_that_others_can_enter_is_not_used(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # The paths of sockets are short, and those of tests are not.
    short = tempfile.TemporaryDirectory(dir="/tmp")
    request.addfinalizer(short.cleanup)
    tmp_path = Path(short.name)
    monkeypatch.setattr(socket_folder, "PLACES", (lambda: str(tmp_path),))
    found = socket_folder.folder()
    assert found is not None
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o755)
    assert socket_folder.folder() is None
    found.rmdir()
    found.symlink_to(tmp_path)
    assert socket_folder.folder() is None


async def test_sockets_of_the_dead_are_removed(tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    server = await asyncio.start_unix_server(lambda _r, w: w.close(), tmp_path / "listens")
    dead = await asyncio.start_unix_server(lambda _r, w: w.close(), tmp_path / "dead")
    dead.close()
    socket_folder.remove_dead(tmp_path)
    assert (tmp_path / "listens").exists()
    assert not (tmp_path / "dead").exists()
    server.close()


def test_who_dials_as_the_loop_ends_is_hung_up_on() -> None:
    """Other processes dial, too, to see whether a socket they find is a dead one's."""
    taken: list[asyncio.StreamWriter] = []

    class Watched(SocketServer):
        def _dialled(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Any:
            taken.append(writer)
            came.set()
            return super()._dialled(reader, writer)

    with socket.socket(socket.AF_UNIX) as other, asyncio.Runner() as runner:
        came = asyncio.Event()

        async def be_dialled() -> None:
            waiting = await Watched().expect(JOB)
            assert waiting is not None
            place = socket_folder.folder()
            assert place is not None
            other.connect(str(place / waiting.socket))
            await came.wait()
            waiting.hang_up()

        runner.run(be_dialled())
        runner.close()
        other.settimeout(60)
        assert other.recv(1) == b""
        assert taken[0].transport.is_closing()
