"""A cluster that misbehaves: nothing is lost, nothing is started twice, nothing hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from starlette.responses import Response

from coatcheck.surfaces.tasks.runners import CommandResult
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesRunner
from coatcheck.surfaces.tasks.runners.runner import (
    ClusterFull,
    ClusterRefused,
    ClusterUnreachable,
    Command,
    Evicted,
    JobVanished,
    NotScheduled,
)
from tests.surfaces.tasks.kubernetes.conftest import MakeRunner, command, first
from tests.surfaces.tasks.kubernetes.fake_cluster import FakeCluster, quota_status, status

pytestmark = pytest.mark.anyio

# Prints a line, and exits when a file appears in its folder.
WAITING = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.02; done; echo done")


class Running:
    """A command that waits for its release."""

    def __init__(self, runner: KubernetesRunner, fake: FakeCluster, asked: Command) -> None:
        self._fake = fake
        self._up = asyncio.Event()
        self.output: list[str] = []
        self.name = asked.name
        self.task: asyncio.Task[CommandResult] = asyncio.create_task(
            runner.run(asked, on_output=self._on_output)
        )

    async def _on_output(self, text: str) -> None:
        self.output.append(text)
        self._up.set()

    async def wait_until_up(self) -> None:
        await first(self._up, self.task)

    def release(self) -> None:
        for container in self._fake.controller.containers.values():
            (container.folder / "go").touch()


async def start_running(
    runner: KubernetesRunner, fake: FakeCluster, seconds: float = 60
) -> Running:
    running = Running(runner, fake, command(*WAITING, seconds=seconds))
    await running.wait_until_up()
    return running


async def test_api_restart(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await start_running(runner, fake)
    await fake.kill()
    running.release()
    await fake.start()
    result = await running.task
    assert (result.exit_code, result.stdout) == (0, "up\ndone\n")
    assert "".join(running.output) == result.stdout, "each piece once"
    assert fake.controller.started == 1


async def test_unreachable_api_is_reported_and_the_job_is_kept(
    make_runner: MakeRunner, fake: FakeCluster
) -> None:
    asked = command(*WAITING)
    running = Running(make_runner(patience_s=0.5), fake, asked)
    await running.wait_until_up()
    await fake.kill()
    with pytest.raises(ClusterUnreachable, match="has not responded for") as failed:
        await running.task
    assert failed.value.retryable
    await fake.start()
    running.release()
    result = await make_runner().run(asked)
    assert (result.exit_code, result.stdout) == (0, "up\ndone\n")
    assert fake.controller.started == 1


async def test_api_that_is_never_reachable(make_runner: MakeRunner, fake: FakeCluster) -> None:
    await fake.kill()
    with pytest.raises(ClusterUnreachable):
        await make_runner(patience_s=0.5).run(command("true"))


async def test_cut_watches_and_logs(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await start_running(runner, fake)
    for _ in range(5):
        fake.cut_streams()
        before = fake.count("GET", "/log")
        while fake.count("GET", "/log") == before:  # noqa: ASYNC110 — until it is opened again
            await asyncio.sleep(0.01)
    running.release()
    result = await running.task
    assert (result.exit_code, result.stdout) == (0, "up\ndone\n")
    assert "".join(running.output) == result.stdout, "each piece once"


async def test_expired_watches(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.watches_expired = True
    assert (await runner.run(command("echo", "hello"))).stdout == "hello\n"


def _failing(
    times: int, *, answer: Callable[[], Response]
) -> Callable[[str, str], Response | None]:
    left = times

    def fault(_method: str, _path: str) -> Response | None:
        nonlocal left
        left -= 1
        return answer() if left >= 0 else None

    return fault


@pytest.mark.parametrize(
    "answer",
    [
        lambda: status(500, "InternalError", "etcdserver: request timed out"),
        lambda: status(429, "TooManyRequests", "slow down"),
        lambda: Response("Bad Gateway", 502),
        lambda: Response("<html>", 200),
    ],
)
async def test_transient_errors(
    runner: KubernetesRunner, fake: FakeCluster, answer: Callable[[], Response]
) -> None:
    fake.fault = _failing(3, answer=answer)
    assert (await runner.run(command("echo", "hello"))).stdout == "hello\n"
    assert fake.controller.started == 1


async def test_lost_response_starts_nothing_twice(
    runner: KubernetesRunner, fake: FakeCluster
) -> None:
    fake.lost_responses = 1
    result = await runner.run(command("echo", "hello"))
    assert result.stdout == "hello\n"
    assert fake.count("POST", "/jobs") == 2
    assert fake.controller.started == 1


async def test_slow_api(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.delay_s = 0.2
    assert (await runner.run(command("echo", "hello"))).stdout == "hello\n"


async def test_eviction(runner: KubernetesRunner, fake: FakeCluster) -> None:
    asked = command(*WAITING)
    running = Running(runner, fake, asked)
    await running.wait_until_up()
    await fake.controller.evict(running.name)
    with pytest.raises(Evicted, match="low on resource") as failed:
        await running.task
    assert failed.value.retryable
    # A retry starts another one.
    again = Running(runner, fake, asked)
    await again.wait_until_up()
    again.release()
    assert (await again.task).exit_code == 0
    assert fake.controller.started == 2


async def test_quota_rejects_the_job(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.rejection = quota_status()
    with pytest.raises(ClusterFull, match="exceeded quota") as failed:
        await runner.run(command("true"))
    assert failed.value.retryable


async def test_quota_rejects_the_pod(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.controller.quota = 'pods "x" is forbidden: exceeded quota: compute'
    with pytest.raises(ClusterFull, match="exceeded quota: compute"):
        await runner.run(command("true"))
    assert (fake.count("DELETE", ""), fake.controller.started) == (1, 0)


async def test_cluster_that_creates_no_pod(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.controller.quota = "some other trouble"
    with pytest.raises(NotScheduled, match="created no pod"):
        await runner.run(command("true", seconds=1))


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (403, "Forbidden", 'jobs.batch is forbidden: User "x" cannot create resource "jobs"'),
        (401, "Unauthorized", "Unauthorized"),
        (404, "NotFound", 'namespaces "x" not found'),
        (422, "Invalid", "spec.template.spec.containers[0].image: Required value"),
    ],
)
async def test_rejections_are_reported_at_once(
    runner: KubernetesRunner, fake: FakeCluster, code: int, reason: str, message: str
) -> None:
    fake.rejection = {"code": code, "reason": reason, "message": message}
    with pytest.raises(ClusterRefused) as failed:
        await runner.run(command("true"))
    assert message in str(failed.value)
    assert not failed.value.retryable


async def test_foreign_job_of_the_same_name(runner: KubernetesRunner, fake: FakeCluster) -> None:
    asked = command("true")
    name = asked.name
    fake.objects.create("jobs", {"metadata": {"name": name}, "spec": {}, "status": {}})
    with pytest.raises(ClusterRefused, match="did not create"):
        await runner.run(asked)
    assert fake.count("DELETE", name) == 0, "the foreign Job is left alone"


async def test_deleted_job(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await start_running(runner, fake)
    job = fake.objects.get("jobs", running.name)
    assert job is not None
    await fake.controller.delete(job)
    with pytest.raises(JobVanished) as failed:
        await running.task
    assert failed.value.retryable


async def test_deleted_pod(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await start_running(runner, fake)
    await fake.controller.delete_pod(running.name)
    with pytest.raises(JobVanished):
        await running.task


async def test_deadline_that_the_cluster_does_not_enforce(
    make_runner: MakeRunner, fake: FakeCluster
) -> None:
    # Its deadline passes, and nobody enforces it.
    fake.controller.frozen = True
    running = await start_running(make_runner(overdue_s=0.5), fake, seconds=1)
    result = await running.task
    assert (result.exit_code, result.timed_out) == (124, True)
    assert result.stdout == "up\n"
    assert fake.count("DELETE", "") == 1


async def test_failed_pod_is_retried_with_a_backoff_limit(
    make_runner: MakeRunner, fake: FakeCluster, tmp_path: object
) -> None:
    mark = f"{tmp_path}/tried"
    asked = command("sh", "-c", f"if [ -e {mark} ]; then echo well; else touch {mark}; exit 1; fi")
    result = await make_runner(backoff_limit=1).run(asked)
    assert (result.exit_code, result.stdout) == (0, "well\n")
    assert fake.controller.started == 2


async def test_failing_listener_deletes_the_job(
    runner: KubernetesRunner, fake: FakeCluster
) -> None:
    async def on_output(_text: str) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await runner.run(command(*WAITING), on_output=on_output)
    assert fake.count("DELETE", "") == 1


async def test_output_that_is_not_text(runner: KubernetesRunner, fake: FakeCluster) -> None:
    result = await runner.run(command("printf", r"a\377b\000c\342\230\202\r\n\013"))
    assert result.stdout == "a\ufffdb\ufffdc☂\r\n\v"
