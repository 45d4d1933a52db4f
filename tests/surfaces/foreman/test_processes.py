"""The queue in real processes: an API, workers, and crashes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import ollama
import pytest

from tests.cli.diagnosis import diagnose, of_area
from tests.cli.proc_files import children_of
from tests.cli.processes import Running, run_to_end, running
from tests.surfaces.foreman.conftest import HELLO
from tests.surfaces.foreman.ollama_shim import Ollama

pytestmark = pytest.mark.anyio

LOST_SOON = {"COATCHECK_LEASE_S": "2", "COATCHECK_SWEEP_S": "0.5"}


@contextlib.asynccontextmanager
async def served(folder: Path, upstream: Ollama, **settings: str) -> AsyncIterator[Running]:
    """Run a server without an app; the upstream is on this loop."""
    environment = {"FOREMAN_OLLAMA_URL": upstream.url, **LOST_SOON, **settings}
    with running("serve", "--port", "0", folder=folder, **environment) as server:
        await asyncio.to_thread(server.stderr.wait_for, "worker started")
        await asyncio.to_thread(server.url)
        yield server
        await asyncio.to_thread(server.stop)


def kill_worker(server: Running) -> None:
    [pid] = [pid for pid, command in children_of(server.pid).items() if "worker" in command]
    os.kill(pid, signal.SIGKILL)


async def ended(http: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    await http.get(f"/v1/jobs/{job_id}?wait=60")
    return dict((await http.get(f"/jobs/{job_id}")).json())


async def submit(http: httpx2.AsyncClient) -> str:
    answer = await http.post("/jobs", json={"model": "tiny", "messages": HELLO})
    return str(answer.json()["job_id"])


async def test_stream_crosses_processes(tmp_path: Path, upstream: Ollama) -> None:
    async with served(tmp_path, upstream) as server, ollama.AsyncClient(server.url()) as client:
        upstream.speaking.shut()
        stream = await client.chat("tiny", HELLO, stream=True)
        first = await anext(stream)
        assert (first.message.content, first.done) != ("", True)
        upstream.speaking.open()
        rest = [chunk async for chunk in stream]
        assert (len(rest), rest[-1].done) == (8, True)
        assert [each.model for each in (await client.list()).models] == upstream.models


async def test_killed_worker_requeues_jobs_and_breaks_streams(
    tmp_path: Path, upstream: Ollama
) -> None:
    """The next worker runs a job without a caller, in the slot that is free again. A caller with a
    partial response sees that it broke.
    """
    async with (
        served(tmp_path, upstream) as server,
        httpx2.AsyncClient(base_url=server.url(), timeout=90) as http,
        ollama.AsyncClient(server.url()) as client,
    ):
        upstream.speaking.shut()
        job_id = await submit(http)
        await upstream.speaking.reached.wait()
        await asyncio.to_thread(kill_worker, server)
        await upstream.closed.wait()
        upstream.speaking.open()
        shown = await ended(http, job_id)
        assert (shown["state"], shown["attempt"]) == ("done", 2)
        upstream.speaking.shut()
        stream = await client.chat("tiny", HELLO, stream=True)
        await anext(stream)
        await asyncio.to_thread(kill_worker, server)
        with pytest.raises(httpx.RemoteProtocolError):
            _ = [chunk async for chunk in stream]
        upstream.speaking.open()
        assert upstream.most_open == 1


async def test_two_worker_processes_share_the_slots(tmp_path: Path, upstream: Ollama) -> None:
    environment = {"FOREMAN_OLLAMA_URL": upstream.url}
    async with (
        served(tmp_path, upstream) as server,
        httpx2.AsyncClient(base_url=server.url(), timeout=90) as http,
    ):
        with running("worker", folder=tmp_path, **environment) as second:
            await asyncio.to_thread(second.stderr.wait_for, "worker started")
            jobs = [await submit(http) for _ in range(30)]
            states = {(await ended(http, job_id))["state"] for job_id in jobs}
            await asyncio.to_thread(second.stop)
        assert states == {"done"}
        assert upstream.most_open == 1


async def test_surface_is_enabled_by_configuration(tmp_path: Path, upstream: Ollama) -> None:
    """By the environment or the config file; otherwise its paths do not exist, and `/healthz` is
    unchanged.
    """
    config = tmp_path / "foreman.toml"
    config.write_text(f'[foreman]\nollama_url = ["{upstream.url}"]\nmax_attempts = 2\n')
    for arguments, there in ((("--config", str(config)), True), ((), False)):
        with running("serve", *arguments, "--port", "0", folder=tmp_path) as server:
            url = await asyncio.to_thread(server.url)
            async with httpx2.AsyncClient(base_url=url) as http:
                health = (await http.get("/healthz")).json()
                assert health == {"status": "ok", **({"degraded": False} if there else {})}
                assert (await http.get("/api/tags")).status_code == (200 if there else 404)
            await asyncio.to_thread(server.stop)
    config.write_text('[foreman]\nollama_url = "http://a"\nmodel = "x"\n')
    refused = await asyncio.to_thread(
        run_to_end, "serve", "--config", str(config), "--port", "0", folder=tmp_path
    )
    assert "unknown key 'model'" in refused.stderr
    assert refused.returncode != 0


async def test_doctor_reports_the_targets(tmp_path: Path, upstream: Ollama) -> None:
    urls = f"{upstream.url},http://127.0.0.1:1"
    found = await asyncio.to_thread(diagnose, tmp_path, FOREMAN_OLLAMA_URL=urls)
    said = of_area(found, "parts")
    host = upstream.url.removeprefix("http://")
    assert ("ok", f"Ollama at {host} has 2 models; loaded: none") in said
    [away] = [message for level, message in said if level == "warning" and "Ollama" in message]
    assert away.startswith("Ollama at 127.0.0.1:1 cannot be reached: ")
    plain = of_area(await asyncio.to_thread(diagnose, tmp_path), "parts")
    assert any("foreman is not available" in message for _, message in plain)


async def test_demo_calls_a_model(tmp_path: Path, upstream: Ollama) -> None:
    ended = await asyncio.to_thread(
        run_to_end,
        *("demo", "--once", "--port", "0"),
        folder=tmp_path,
        COLUMNS="200",
        FOREMAN_OLLAMA_URL=upstream.url,
    )
    assert ended.returncode == 0, ended.stdout
    assert ": tiny:latest" in ended.stdout
    assert [body["model"] for _, body in upstream.asked if body.get("messages")] == ["tiny:latest"]
