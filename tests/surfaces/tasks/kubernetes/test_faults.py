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
from tests.surfaces.tasks.kubernetes.fake import FakeCluster, quota_status, status

pytestmark = pytest.mark.anyio

# Says that it is up, and ends when it is told to by a file in its folder.
WAITING = ("sh", "-c", "echo up; until [ -e go ]; do sleep 0.02; done; echo done")


class Running:
    """A command that waits to be let go."""

    def __init__(self, runner: KubernetesRunner, fake: FakeCluster, asked: Command) -> None:
        self._fake = fake
        self._up = asyncio.Event()
        self.told: list[str] = []
        self.name = asked.name
        self.task: asyncio.Task[CommandResult] = asyncio.create_task(
            runner.run(asked, on_output=self._tell)
        )

    async def _tell(self, text: str) -> None:
        self.told.append(text)
        self._up.set()

    async def up(self) -> None:
        await first(self._up, self.task)

    def let_go(self) -> None:
        for container in self._fake.controller.containers.values():
            (container.folder / "go").touch()


async def started(runner: KubernetesRunner, fake: FakeCluster, seconds: float = 60) -> Running:
    running = Running(runner, fake, command(*WAITING, seconds=seconds))
    await running.up()
    return running


async def test_an_api_that_dies_and_comes_back(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await started(runner, fake)
    await fake.kill()
    running.let_go()
    await fake.start()
    ran = await running.task
    assert (ran.exit_code, ran.stdout) == (0, "up\ndone\n")
    assert "".join(running.told) == ran.stdout, "each piece once"
    assert fake.controller.started == 1


async def test_an_api_that_stays_away_is_said_and_the_job_is_left_to_who_comes_next(
    make_runner: MakeRunner, fake: FakeCluster
) -> None:
    asked = command(*WAITING)
    running = Running(make_runner(patience_s=0.5), fake, asked)
    await running.up()
    await fake.kill()
    with pytest.raises(ClusterUnreachable, match="has not answered for") as failed:
        await running.task
    assert failed.value.retryable
    await fake.start()
    running.let_go()
    ran = await make_runner().run(asked)
    assert (ran.exit_code, ran.stdout) == (0, "up\ndone\n")
    assert fake.controller.started == 1


async def test_no_api_at_all(make_runner: MakeRunner, fake: FakeCluster) -> None:
    await fake.kill()
    with pytest.raises(ClusterUnreachable):
        await make_runner(patience_s=0.5).run(command("true"))


async def test_watches_and_logs_that_are_cut(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await started(runner, fake)
    for _ in range(5):
        fake.cut_streams()
        before = fake.count("GET", "/log")
        while fake.count("GET", "/log") == before:  # noqa: ASYNC110 — until it is opened again
            await asyncio.sleep(0.01)
    running.let_go()
    ran = await running.task
    assert (ran.exit_code, ran.stdout) == (0, "up\ndone\n")
    assert "".join(running.told) == ran.stdout, "each piece once"


async def test_watches_that_are_too_old(runner: KubernetesRunner, fake: FakeCluster) -> None:
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
async def test_errors_that_pass(
    runner: KubernetesRunner, fake: FakeCluster, answer: Callable[[], Response]
) -> None:
    fake.fault = _failing(3, answer=answer)
    assert (await runner.run(command("echo", "hello"))).stdout == "hello\n"
    assert fake.controller.started == 1


async def test_an_answer_that_is_lost_starts_nothing_twice(
    runner: KubernetesRunner, fake: FakeCluster
) -> None:
    fake.answers_lost = 1
    ran = await runner.run(command("echo", "hello"))
    assert ran.stdout == "hello\n"
    assert fake.count("POST", "/jobs") == 2
    assert fake.controller.started == 1


async def test_a_slow_api(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.delay_s = 0.2
    assert (await runner.run(command("echo", "hello"))).stdout == "hello\n"


async def test_an_eviction(runner: KubernetesRunner, fake: FakeCluster) -> None:
    asked = command(*WAITING)
    running = Running(runner, fake, asked)
    await running.up()
    await fake.controller.evict(running.name)
    with pytest.raises(Evicted, match="low on resource") as failed:
        await running.task
    assert failed.value.retryable
    # A retry starts another one.
    again = Running(runner, fake, asked)
    await again.up()
    again.let_go()
    assert (await again.task).exit_code == 0
    assert fake.controller.started == 2


async def test_a_quota_that_refuses_the_job(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.refused = quota_status()
    with pytest.raises(ClusterFull, match="exceeded quota") as failed:
        await runner.run(command("true"))
    assert failed.value.retryable


async def test_a_quota_that_refuses_the_pod(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.controller.quota = 'pods "x" is forbidden: exceeded quota: compute'
    with pytest.raises(ClusterFull, match="exceeded quota: compute"):
        await runner.run(command("true"))
    assert (fake.count("DELETE", ""), fake.controller.started) == (1, 0)


async def test_a_cluster_that_makes_no_pod(runner: KubernetesRunner, fake: FakeCluster) -> None:
    fake.controller.quota = "some other trouble"
    with pytest.raises(NotScheduled, match="made no pod"):
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
async def test_refusals_are_said_at_once(
    runner: KubernetesRunner, fake: FakeCluster, code: int, reason: str, message: str
) -> None:
    fake.refused = {"code": code, "reason": reason, "message": message}
    with pytest.raises(ClusterRefused) as failed:
        await runner.run(command("true"))
    assert message in str(failed.value)
    assert not failed.value.retryable


async def test_a_job_of_somebody_else(runner: KubernetesRunner, fake: FakeCluster) -> None:
    asked = command("true")
    name = asked.name
    fake.objects.create("jobs", {"metadata": {"name": name}, "spec": {}, "status": {}})
    with pytest.raises(ClusterRefused, match="not ours"):
        await runner.run(asked)
    assert fake.count("DELETE", name) == 0, "and it is left alone"


async def test_a_job_that_somebody_deletes(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await started(runner, fake)
    job = fake.objects.get("jobs", running.name)
    assert job is not None
    await fake.controller.delete(job)
    with pytest.raises(JobVanished) as failed:
        await running.task
    assert failed.value.retryable


async def test_a_pod_that_somebody_deletes(runner: KubernetesRunner, fake: FakeCluster) -> None:
    running = await started(runner, fake)
    await fake.controller.delete_pod(running.name)
    with pytest.raises(JobVanished):
        await running.task


async def test_a_cluster_that_ends_nothing(make_runner: MakeRunner, fake: FakeCluster) -> None:
    # Its deadline passes, and nobody enforces it.
    fake.controller.frozen = True
    running = await started(make_runner(overdue_s=0.5), fake, seconds=1)
    ran = await running.task
    assert (ran.exit_code, ran.timed_out) == (124, True)
    assert ran.stdout == "up\n"
    assert fake.count("DELETE", "") == 1


async def test_a_failed_pod_is_tried_again_where_that_is_allowed(
    make_runner: MakeRunner, fake: FakeCluster, tmp_path: object
) -> None:
    mark = f"{tmp_path}/tried"
    asked = command("sh", "-c", f"if [ -e {mark} ]; then echo well; else touch {mark}; exit 1; fi")
    ran = await make_runner(backoff_limit=1).run(asked)
    assert (ran.exit_code, ran.stdout) == (0, "well\n")
    assert fake.controller.started == 2


async def test_a_listener_that_fails_deletes_the_job(
    runner: KubernetesRunner, fake: FakeCluster
) -> None:
    async def tell(_text: str) -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await runner.run(command(*WAITING), on_output=tell)
    assert fake.count("DELETE", "") == 1


async def test_bytes_that_are_no_text(runner: KubernetesRunner, fake: FakeCluster) -> None:
    ran = await runner.run(command("printf", r"a\377b\000c\342\230\202\r\n\013"))
    assert ran.stdout == "a\ufffdb\ufffdc☂\r\n\v"
