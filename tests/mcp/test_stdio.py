"""`coatcheck mcp`, and servers that restart during a task, as real processes."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

from coatcheck.client.address import find_address
from coatcheck.mcp.stdio import Bridge, read_lines
from tests.cli.processes import Running, environment, running
from tests.mcp import app
from tests.mcp.client import KnowsTasks, begun, connected, ended, look, text_of
from tests.mcp.kinds import Gate

pytestmark = pytest.mark.anyio

APP = f"{Path(app.__file__)}:app"


@asynccontextmanager
async def over_stdio(
    url: str, *, tasks: bool = False, mode: str = "auto", **settings: str
) -> AsyncIterator[Client]:
    """Start the command as an assistant does, and talk to it."""
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "coatcheck", "mcp"],
        env=environment(COATCHECK_URL=url, **settings),
    )
    extensions = [KnowsTasks()] if tasks else []
    async with Client(command, mode=mode, extensions=extensions) as client:
        yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_over_stdio(url: str, gate: Gate, mode: str) -> None:
    seen: list[float] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)
        gate.opened.set()

    async with over_stdio(url, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "buy" in names
        assert text_of(await client.call_tool("shout", {"input": "hö"})) == "HÖ"
        assert (await client.call_tool("buy", {})).is_error
        held = await client.call_tool("held", {"input": "coat"}, progress_callback=told)
        assert text_of(held) == "coat"
        assert seen[0] == 1
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("größe", {})


async def test_tasks_over_stdio(url: str) -> None:
    async with over_stdio(url, tasks=True) as client:
        created = await begun(client, "shout", {"input": "ho"})
        task = await ended(client.session, created.task_id)
        assert task.result is not None
        assert text_of(task.result) == "HO"


async def test_command_uses_its_own_key(url: str, engine: Any) -> None:
    _, key = await engine.authenticator.create_key("acme", ["jobs:write:shout"])
    async with over_stdio(url, mode="legacy", COATCHECK_API_KEY=key) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["shout"]
    with pytest.raises(BaseException) as refused:
        async with over_stdio(url, mode="legacy"):
            pass
    assert "this server needs a key" in str(_last(refused.value))


def _last(error: BaseException) -> BaseException:
    return _last(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


async def talk(url: str, *lines: bytes, retry_for_s: float = 0.0) -> list[dict[str, Any]]:
    """Say something to a bridge, through a pipe, and return what it answers."""
    written: list[str] = []
    here, there = os.pipe()
    with os.fdopen(there, "wb") as pipe:
        pipe.write(b"\n".join(lines))
    bridge = Bridge(find_address(url, ""), written.append, retry_for_s=retry_for_s)
    await bridge.run(read_lines(here))
    os.close(here)
    return [json.loads(line) for line in written]


async def test_invalid_lines_are_answered_with_errors(url: str) -> None:
    answers = await talk(
        url,
        b"{",
        b"[]",
        b"",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
        b'{"jsonrpc":"2.0","id":5,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":6,"method":"no/such"}',
        b'{"jsonrpc":"2.0","id":8,"method":"ping"}',  # without a newline at the end
    )
    codes = {answer["id"]: answer.get("error", {}).get("code") for answer in answers}
    assert codes == {None: -32600, 6: -32601, 8: None}
    assert [answer["error"]["code"] for answer in answers[:3]] == [-32700, -32600, -32600]


async def test_unreachable_server_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    [answer] = await talk(url, b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    assert answer["id"] == 1
    assert answer["error"]["message"].startswith(f"cannot reach the server at {url}")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class Place:
    """A server that can be killed and started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def serving(self, wait_s: str = "60") -> Any:
        return running(
            *("serve", APP, "--port", str(self.port)),
            folder=self.folder,
            COATCHECK_MCP_WAIT_S=wait_s,
        )


def kill(server: Running) -> None:
    server.process.kill()  # whose processes do not outlive it
    server.process.wait()
    server.stdout.until_end()


async def test_calls_survive_a_killed_server(tmp_path: Path) -> None:
    """Killed in the middle of two tasks, and of a call that waits: which is made again under its
    key, and is still one job.
    """
    place, coat = Place(tmp_path), tmp_path / "coat"
    arguments, waits = {"input": str(coat)}, asyncio.Event()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        waits.set()

    with place.serving() as server:
        server.url()
        async with (
            connected(place.url, tasks=True) as over_http,
            over_stdio(place.url, tasks=True) as beside,
            over_stdio(place.url) as waiting,
        ):
            clients = (over_http, beside)
            created = [await begun(client, "fetch", arguments) for client in clients]
            call = asyncio.create_task(
                waiting.call_tool("fetch", arguments, progress_callback=told)
            )
            await waits.wait()
            for client, task in zip(clients, created, strict=True):
                while (await look(client.session, task.task_id)).status_message == "queued":
                    pass
            kill(server)
            with place.serving() as again:
                again.url()
                for client, task in zip(clients, created, strict=True):
                    assert (await look(client.session, task.task_id)).status == "working"
                coat.write_text("a coat")
                for client, task in zip(clients, created, strict=True):
                    result = (await ended(client.session, task.task_id)).result
                    assert result is not None
                    assert text_of(result) == "a coat"
                assert text_of(await call) == "a coat"
                async with httpx2.AsyncClient() as http:
                    jobs = (await http.get(f"{place.url}/v1/jobs")).json()["jobs"]
                assert [job["attempt"] for job in jobs] == [2, 2, 2]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_job_id_works_after_a_restart(tmp_path: Path, mode: str) -> None:
    """A client that knows no tasks, over plain HTTP: another one takes the id up, elsewhere."""
    place, coat = Place(tmp_path), tmp_path / "coat"
    with place.serving(wait_s="0") as server:
        server.url()
        async with connected(place.url, mode=mode) as client:
            told = await client.call_tool("fetch", {"input": str(coat)})
            job = {"job_id": told.structured_content["job_id"]}
            status = told.structured_content
            while status["state"] != "running":
                status = (await client.call_tool("job_status", job)).structured_content
        kill(server)
    coat.write_text("a coat")
    with place.serving(wait_s="0") as again:
        again.url()
        async with connected(place.url, mode=mode) as client:
            result = await client.call_tool("job_result", {**job, "wait_s": 60})
            assert text_of(result) == "a coat"
            assert result.structured_content["job_id"] == job["job_id"]
            assert result.structured_content["state"] == "succeeded"
            status = await client.call_tool("job_status", job)
            assert status.structured_content["state"] == "succeeded"


async def test_closed_stdout_ends_the_command(url: str) -> None:
    def nobody_listens(_line: str) -> None:
        raise BrokenPipeError

    here, there = os.pipe()
    os.write(there, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    with pytest.raises(BrokenPipeError):  # what the command line makes an end of
        await Bridge(find_address(url, ""), nobody_listens).run(read_lines(here))
    os.close(there)


def test_library_is_imported_only_on_use() -> None:
    without = "import sys; sys.modules.update(mcp=None, mcp_types=None); "
    needed = (
        "import coatcheck.cli.commands.mcp, coatcheck.cli.server.processes, "
        "coatcheck.cli.doctor.command"
    )
    subprocess.run([sys.executable, "-c", without + needed], check=True)
