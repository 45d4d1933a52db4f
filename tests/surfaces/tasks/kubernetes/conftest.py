"""A cluster: the one in `KUBECONFIG`, or else a small fake."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable

import pytest
from lightkube.config.kubeconfig import KubeConfig, SingleConfig

from coatcheck.surfaces.tasks.runners import Command, CommandResult
from coatcheck.surfaces.tasks.runners.kubernetes import KubernetesRunner, KubernetesSettings
from coatcheck.surfaces.tasks.runners.runner import job_name
from tests.surfaces.tasks.kubernetes.fake_cluster import FakeCluster

REAL = "KUBECONFIG" in os.environ
NAMESPACE = os.environ.get("K8S_NAMESPACE", "default")

MakeRunner = Callable[..., KubernetesRunner]


def command(*argv: str, seconds: float = 60, name: str | None = None) -> Command:
    return Command(argv, name or job_name("default", f"{uuid.uuid4()}"), seconds)


async def first(event: asyncio.Event, task: asyncio.Task[CommandResult]) -> None:
    """Wait for an event while a command runs; fail if the command ends first."""
    waiting = asyncio.ensure_future(event.wait())
    await asyncio.wait([waiting, task], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not event.is_set():
        raise AssertionError(f"the command has ended before: {await task}")


@pytest.fixture
async def fake() -> AsyncIterator[FakeCluster]:
    """A fake cluster that can be told to misbehave."""
    if REAL:
        pytest.skip("a real cluster cannot be told to misbehave")
    cluster = FakeCluster(NAMESPACE)
    await cluster.start()
    yield cluster
    await cluster.close()


@pytest.fixture
def config(request: pytest.FixtureRequest) -> SingleConfig | None:
    if REAL:
        return None
    fake: FakeCluster = request.getfixturevalue("fake")
    return KubeConfig.from_server(f"http://127.0.0.1:{fake.port}").get()


@pytest.fixture
def make_runner(config: SingleConfig | None) -> MakeRunner:
    def make(patience_s: float = 20, overdue_s: float = 30, **settings: object) -> KubernetesRunner:
        own = KubernetesSettings(namespace=NAMESPACE, **settings)  # type: ignore[arg-type]
        look_s = 5.0 if REAL else 0.5
        return KubernetesRunner(
            own, config=config, patience_s=patience_s, look_s=look_s, overdue_s=overdue_s
        )

    return make


@pytest.fixture
def runner(make_runner: MakeRunner) -> KubernetesRunner:
    return make_runner()
