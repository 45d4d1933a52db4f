"""Cancelled asyncio calls leave no task and no connection behind."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from coatcheck import AsyncClient, AsyncJobHandle
from tests.cli.processes import PATIENCE_S, Running
from tests.client.faulty_proxy import Fault, FaultyProxy


async def _result(handle: AsyncJobHandle) -> None:
    await handle.result()


async def _events(handle: AsyncJobHandle) -> None:
    async for _ in handle.events(after=10):
        pass


@pytest.mark.parametrize("call", [_result, _events])
def test_cancelled_call_leaves_no_task_and_no_connection(
    server: Running, pipe: Path, call: Callable[[AsyncJobHandle], Coroutine[Any, Any, None]]
) -> None:
    async def scenario(proxy: FaultyProxy) -> None:
        async with AsyncClient(proxy.url) as client:
            handle = await client.submit("meet", str(pipe))
            waiting = asyncio.create_task(call(handle))
            await asyncio.to_thread(
                proxy.wait_until,
                lambda seen: len(seen.requests) == 2 and seen.open == 1,
                "the client waits",
            )
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            del waiting
            gc.collect()
            await asyncio.to_thread(
                proxy.wait_until, lambda seen: seen.open == 0, "the connection is closed"
            )
            assert asyncio.all_tasks() == {asyncio.current_task()}

            def finish() -> None:
                pipe.write_text("goes on")

            await asyncio.to_thread(finish)
            assert await handle.result(PATIENCE_S) == "goes on"

    with FaultyProxy(server.url()) as proxy:
        asyncio.run(scenario(proxy))


def test_submit_cancelled_between_attempts_stops(server: Running) -> None:
    async def scenario(proxy: FaultyProxy) -> None:
        async with AsyncClient(proxy.url) as client:
            submitting = asyncio.create_task(client.submit("echo", 7))
            await asyncio.to_thread(
                proxy.wait_until, lambda seen: len(seen.requests) >= 2, "it is repeated"
            )
            submitting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await submitting
            assert asyncio.all_tasks() == {asyncio.current_task()}

    with FaultyProxy(server.url(), [Fault.REFUSED] * 1000) as proxy:
        asyncio.run(scenario(proxy))


def test_tasks_share_a_client(server: Running) -> None:
    async def scenario() -> list[int]:
        async with AsyncClient(server.url()) as client:
            runs = [client.run("echo", number, result_type=int) for number in range(50)]
            return await asyncio.gather(*runs)

    assert asyncio.run(scenario()) == list(range(50))
