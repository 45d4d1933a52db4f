"""Targets that go away in the middle of a call, like a laptop whose lid is closed."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Iterator

import pytest

from coatcheck.model.job import Job
from coatcheck.model.state import State
from coatcheck.surfaces.foreman import targets
from tests.surfaces.foreman.conftest import Foreman, Serve
from tests.surfaces.foreman.faulty import Cut, faulty, streaming
from tests.surfaces.foreman.ollama_process import OllamaProcess

pytestmark = pytest.mark.anyio

MAX_ATTEMPTS = "2"
OUTAGES = 5


@contextlib.contextmanager
def upstream_process(port: int, stalls: int, *, resident: bool = True) -> Iterator[OllamaProcess]:
    process = OllamaProcess(port, stalls, resident=resident)
    try:
        yield process
    finally:
        process.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


async def back_in_queue(foreman: Foreman, job_id: str) -> Job:
    job = await foreman.until(job_id, lambda job: job.state is not State.RUNNING)
    assert job.state is State.QUEUED, job.error
    return job


@pytest.mark.parametrize("phase", ["loading", "working"])
async def test_target_outages_never_fail_a_job(serve: Serve, phase: str) -> None:  # F05
    """The target dies during every call but the last, more often than the job has attempts."""
    port, resident = free_port(), phase == "working"
    async with serve(
        f"http://127.0.0.1:{port}", poll_interval="100ms", max_attempts=MAX_ATTEMPTS
    ) as foreman:
        job_id = await foreman.submit()
        for _ in range(OUTAGES):
            with upstream_process(port, stalls=1, resident=resident) as process:
                await process.expect("ready")
                await process.expect("called")
                await foreman.until(job_id, lambda job: job.phase == phase)
            await back_in_queue(foreman, job_id)
        with upstream_process(port, stalls=0) as process:
            await process.expect("ready")
            shown = await foreman.ended(job_id)
        assert (shown["state"], shown["attempt"], shown["error"]) == ("done", 1, None)


async def test_sleeping_target_does_not_use_attempts(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # F05
    """A paused target keeps its connections and answers nothing."""
    monkeypatch.setattr(targets, "PROBE_S", 0.5)
    port = free_port()
    with upstream_process(port, stalls=OUTAGES) as process:
        await process.expect("ready")
        async with serve(
            f"http://127.0.0.1:{port}", poll_interval="100ms", max_attempts=MAX_ATTEMPTS
        ) as foreman:
            job_id = await foreman.submit()
            for _ in range(OUTAGES):
                await process.expect("called")
                await foreman.until(job_id, lambda job: job.phase == "working")
                process.send(signal.SIGSTOP)
                await back_in_queue(foreman, job_id)
                process.send(signal.SIGCONT)
            shown = await foreman.ended(job_id)
            assert (shown["state"], shown["attempt"]) == ("done", 1)


@pytest.mark.parametrize(
    "answer", [Cut(b""), Cut(b"HTTP/1.1 200 X\r\n"), Cut(streaming({"done": False}))]
)
async def test_job_that_breaks_its_own_call_fails(serve: Serve, answer: Cut) -> None:  # F06
    """The target answers a probe right after the call broke: the attempts count."""
    async with (
        faulty(lambda _: answer) as upstream,
        serve(upstream.url, poll_interval="100ms", max_attempts="3") as foreman,
    ):
        shown = await foreman.ended(await foreman.submit())
        assert (shown["state"], shown["attempt"], len(upstream.calls)) == ("failed", 3, 3)
        assert "broke off" in shown["error"]


async def test_timeout_of_a_sleeping_target_does_not_count(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt's timeout may come before failed probes."""
    monkeypatch.setattr(targets, "PROBE_S", 0.5)
    port = free_port()
    with upstream_process(port, stalls=1) as process:
        await process.expect("ready")
        async with serve(f"http://127.0.0.1:{port}", job_timeout="2s", max_attempts="1") as foreman:
            job_id = await foreman.submit()
            await process.expect("called")
            process.send(signal.SIGSTOP)
            job = await back_in_queue(foreman, job_id)
            assert job.error is not None
            assert "took longer" in job.error.message
            process.send(signal.SIGCONT)
            assert (await foreman.ended(job_id))["state"] == "done"
