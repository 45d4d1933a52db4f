"""Executions in a Kubernetes cluster: begun once, whoever dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coatcheck.surfaces.tasks.running import Runner
from coatcheck.surfaces.tasks.surface import TaskSurface
from tests.surfaces.tasks.kubernetes.conftest import MakeRunner, config, fake, make_runner
from tests.surfaces.tasks.kubernetes.fake import FakeCluster

from .conftest import Serve
from .test_tasks import ended, put_task

pytestmark = pytest.mark.anyio
__all__ = ["config", "fake", "make_runner"]

IN_A_CLUSTER = {"EXEC_RUNNER": "kubernetes"}


@pytest.fixture
def surface(make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch) -> Callable[[], TaskSurface]:
    """The surface on the cluster of these tests."""

    def make() -> Runner:
        return make_runner()

    monkeypatch.setattr(TaskSurface, "_runner", lambda _self: make())
    return lambda: TaskSurface(IN_A_CLUSTER)


async def test_an_execution_is_a_job_of_the_cluster(  # T14
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    async with serve(surface()) as (http, _):
        path = await put_task(http, ["echo", "from afar"])
        shown = await ended(http, await http.put(f"{path}?async=true"))
        assert (shown["status"], shown["stdout"]) == ("SUCCEEDED", "from afar\n")
        assert names(fake) == [shown["jobName"]]


async def test_who_comes_after_a_worker_takes_over_what_it_had_started(
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    async with serve(surface()) as (http, _):
        path = await put_task(http, ["sleep", "600"])
        accepted = await http.put(f"{path}?async=true")
        await until(lambda: len(names(fake)) == 1)
    assert fake.count("DELETE", names(fake)[0]) == 0  # the worker is gone, and the command is not
    begun = fake.count("POST", "/jobs")

    async with serve(surface()) as (http, _):
        await until(lambda: fake.count("POST", "/jobs") > begun)  # it finds that there is one
        assert names(fake) == [accepted.json()["jobName"]]
        await http.post(f"/v1/jobs/{accepted.json()['executionId']}/cancel")
        shown = await ended(http, accepted)
        assert (shown["status"], shown["stderr"]) == ("FAILED", "cancelled")
        await until(lambda: fake.count("DELETE", accepted.json()["jobName"]) == 1)


def names(fake: FakeCluster) -> list[str]:
    return [job["metadata"]["name"] for job in fake.objects.list("jobs", {})]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that the cluster gives no signal of."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it gives none
            await asyncio.sleep(0.01)
