"""The relay socket: tokens, frames, and lost connections."""

from __future__ import annotations

import asyncio
import socket
import tempfile
from pathlib import Path
from typing import Any

import pytest

from coatcheck.relay import socket_folder
from coatcheck.relay.call import ResponseHead
from coatcheck.relay.client_socket import connect_to_caller
from coatcheck.relay.frames import FrameType, SocketBroken, encode_frame
from coatcheck.relay.server_socket import PendingCall, SocketServer, UpstreamBroke

pytestmark = pytest.mark.anyio

HEAD = ResponseHead(200, [("x-one", "1")])
JOB = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def register() -> PendingCall:
    found = await SocketServer().register(JOB)
    assert found is not None
    return found


async def test_frames_arrive_at_the_other_end() -> None:
    pending = await register()
    client = await connect_to_caller(pending.socket, JOB, HEAD)
    assert client is not None
    assert await pending.head() == HEAD
    body = b"one" + b"x" * 2_500_000

    async def say() -> None:
        await client.send_chunk(body)
        await client.send(FrameType.END)

    saying = asyncio.create_task(say())
    assert b"".join([chunk async for chunk in pending.chunks()]) == body
    await saying
    client.close()
    pending.close()


async def test_token_is_valid_for_one_connection() -> None:
    pending = await register()
    assert await connect_to_caller(pending.socket, "another job", HEAD) is None
    first = await connect_to_caller(pending.socket, JOB, HEAD)
    assert first is not None
    assert await connect_to_caller(pending.socket, JOB, HEAD) is None
    first.close()
    pending.close()


async def test_connecting_after_the_caller_left_returns_none() -> None:
    pending = await register()
    pending.close()
    assert await connect_to_caller(pending.socket, JOB, HEAD) is None
    assert await connect_to_caller("f" * 32, JOB, HEAD) is None
    assert await connect_to_caller(None, JOB, HEAD) is None


async def test_deleted_key_is_recreated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(socket_folder, "find_folder", lambda: tmp_path)
    server = SocketServer()
    for _ in range(2):
        pending = await server.register(JOB)
        assert pending is not None
        client = await connect_to_caller(pending.socket, JOB, HEAD)
        assert client is not None
        client.close()
        pending.close()
        key = tmp_path / socket_folder.KEY
        assert key.stat().st_mode & 0o077 == 0
        socket_folder.remove_stale_sockets(tmp_path)
        key.unlink()  # as a cleaner of temporary files would


async def test_client_notices_a_disconnected_caller() -> None:
    pending = await register()
    client = await connect_to_caller(pending.socket, JOB, HEAD)
    assert client is not None
    await pending.head()
    pending.close()
    while client.is_open:
        await client.send_chunk(b"more")
    await client.send_chunk(b"after the disconnect")


async def test_broken_upstream_and_lost_worker_differ() -> None:
    for last, error in ((FrameType.BROKEN, UpstreamBroke), (None, SocketBroken)):
        pending = await register()
        client = await connect_to_caller(pending.socket, JOB, HEAD)
        assert client is not None
        await pending.head()
        if last is not None:
            await client.send(last)
        client.close()
        with pytest.raises(error):
            _ = [chunk async for chunk in pending.chunks()]
        pending.close()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, encode_frame(FrameType.END)]
)
async def test_garbage_instead_of_a_head_breaks_the_socket(garbage: bytes) -> None:
    pending = await register()
    folder = socket_folder.find_folder()
    assert folder is not None
    reader, writer = await asyncio.open_unix_connection(folder / pending.socket)
    token = socket_folder.make_token(folder, pending.socket, JOB)
    assert token is not None
    writer.write(encode_frame(FrameType.TOKEN, token.encode()))
    await reader.read(1)
    writer.write(garbage)
    writer.write_eof()
    with pytest.raises(SocketBroken):
        await pending.head()
    writer.close()
    pending.close()


async def test_stalled_caller_counts_as_disconnected() -> None:
    pending = await register()
    client = await connect_to_caller(pending.socket, JOB, HEAD, stall_s=0.05)
    assert client is not None
    await pending.head()
    while client.is_open:  # the buffers fill up, and then nothing moves
        await client.send_chunk(b"x" * 65_536)
    pending.close()


async def test_folder_accessible_to_others_is_rejected(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    # The paths of sockets are short, and those of tests are not.
    short = tempfile.TemporaryDirectory(dir="/tmp")
    request.addfinalizer(short.cleanup)
    tmp_path = Path(short.name)
    monkeypatch.setattr(socket_folder, "PARENTS", (lambda: str(tmp_path),))
    found = socket_folder.find_folder()
    assert found is not None
    assert found.stat().st_mode & 0o777 == 0o700
    found.chmod(0o755)
    assert socket_folder.find_folder() is None
    found.rmdir()
    found.symlink_to(tmp_path)
    assert socket_folder.find_folder() is None


async def test_stale_sockets_are_removed(tmp_path: Path) -> None:
    (tmp_path / "alive").touch()
    server = await asyncio.start_unix_server(lambda _r, w: w.close(), tmp_path / "listens")
    dead = await asyncio.start_unix_server(lambda _r, w: w.close(), tmp_path / "dead")
    dead.close()
    socket_folder.remove_stale_sockets(tmp_path)
    assert (tmp_path / "listens").exists()
    assert not (tmp_path / "dead").exists()
    server.close()


def test_connections_close_when_the_loop_ends() -> None:
    """Other processes connect too, to find out whether a socket is stale."""
    taken: list[asyncio.StreamWriter] = []

    class Watched(SocketServer):
        def _handle_connection(
            self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> Any:
            taken.append(writer)
            came.set()
            return super()._handle_connection(reader, writer)

    with socket.socket(socket.AF_UNIX) as other, asyncio.Runner() as runner:
        came = asyncio.Event()

        async def be_handle_connection() -> None:
            pending = await Watched().register(JOB)
            assert pending is not None
            folder = socket_folder.find_folder()
            assert folder is not None
            other.connect(str(folder / pending.socket))
            await came.wait()
            pending.close()

        runner.run(be_handle_connection())
        runner.close()
        other.settimeout(60)
        assert other.recv(1) == b""
        assert taken[0].transport.is_closing()
