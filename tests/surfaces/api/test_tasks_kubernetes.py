"""Executions in a Kubernetes cluster are started once, whichever worker dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.model.step import Step
from coatcheck.surfaces.tasks.runners import CommandRunner
from coatcheck.surfaces.tasks.surface import TaskSurface
from tests.cli.processes import COMMAND, environment
from tests.surfaces.tasks.kubernetes.conftest import MakeRunner, config, fake, make_runner
from tests.surfaces.tasks.kubernetes.fake_cluster import FakeCluster

from .conftest import Serve
from .task_requests import put_task, wait_finished

pytestmark = pytest.mark.anyio
__all__ = ["config", "fake", "make_runner"]


@pytest.fixture
def cluster_environment(tmp_path: Path) -> dict[str, str]:
    policy = tmp_path / "commands.toml"
    policy.write_text('default = "allow"\n')
    return {"EXEC_RUNNER": "kubernetes", "EXEC_POLICY_FILE": str(policy)}


@pytest.fixture
def surface(
    make_runner: MakeRunner, monkeypatch: pytest.MonkeyPatch, cluster_environment: dict[str, str]
) -> Callable[[], TaskSurface]:
    """The surface on the cluster of these tests."""

    def make() -> CommandRunner:
        return make_runner()

    monkeypatch.setattr(TaskSurface, "_runner", lambda _self: make())
    return lambda: TaskSurface(cluster_environment)


async def test_execution_is_a_kubernetes_job(  # T14
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    async with serve(surface()) as (http, _):
        path = await put_task(http, ["echo", "from afar"])
        shown = await wait_finished(http, await http.put(f"{path}?async=true"))
        assert (shown["status"], shown["stdout"]) == ("SUCCEEDED", "from afar\n")
        assert names(fake) == [shown["jobName"]]


async def test_execution_is_pending_until_its_pod_runs(  # T06
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    """Neither a claimed job nor a Kubernetes Job runs before its pod does."""
    fake.controller.capacity.clear()
    async with serve(surface()) as (http, engine):
        path = await put_task(http, ["sh", "-c", "echo up; until [ -e go ]; do sleep 0.02; done"])
        accepted = await http.put(f"{path}?async=true")
        assert accepted.json()["status"] == "PENDING"
        where = accepted.headers["Location"]
        await until(lambda: bool(unscheduled(fake)))
        await noted(engine, accepted, "begun")
        assert (await engine.get(accepted.json()["executionId"])).state == "running"
        waiting = (await http.get(where)).json()
        assert (waiting["status"], waiting["startedAt"]) == (
            "PENDING",
            accepted.json()["startedAt"],
        )
        [listed] = (await http.get("/api/tasks")).json()
        assert [each["status"] for each in listed["taskExecutions"]] == ["PENDING"]
        fake.controller.capacity.set()
        await noted(engine, accepted, "running")
        assert (await http.get(where)).json()["status"] == "RUNNING"
        assert (await http.get("/api/tasks/task-1")).json()["taskExecutions"][0]["status"] == (
            "RUNNING"
        )
        for container in fake.controller.containers.values():
            (container.folder / "go").touch()
        assert (await wait_finished(http, accepted))["status"] == "SUCCEEDED"


async def test_job_of_a_stopped_worker_is_taken_over(
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    async with serve(surface()) as (http, _):
        path = await put_task(http, ["sleep", "600"])
        accepted = await http.put(f"{path}?async=true")
        await until(lambda: len(names(fake)) == 1)
    # the worker has stopped, but the command has not
    assert fake.count("DELETE", names(fake)[0]) == 0
    asked = len(fake.requests)

    async with serve(surface()) as (http, _):
        await until(lambda: len(fake.requests) > asked)  # it finds the existing Job
        assert names(fake) == [accepted.json()["jobName"]]
        await http.post(f"/v1/jobs/{accepted.json()['executionId']}/cancel")
        shown = await wait_finished(http, accepted)
        assert (shown["status"], shown["stderr"]) == ("FAILED", "cancelled")
        await until(lambda: fake.count("DELETE", accepted.json()["jobName"]) == 1)


async def test_job_names_of_tenants_do_not_collide(  # G40
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster
) -> None:
    async with serve(surface()) as (http, engine):
        keys = {
            tenant: {"X-Api-Key": (await engine.authenticator.create_key(tenant, ["admin"]))[1]}
            for tenant in ("a", "b")
        }
        argv = ["sh", "-c", "echo secret; exec sleep 600"]
        task = {"id": "t", "name": "t", "command": argv}
        await http.put("/api/tasks", json=task, headers=keys["a"])
        accepted = await http.put("/api/tasks/t/executions?async=true", headers=keys["a"])
        theirs = accepted.json()
        await until(lambda: len(names(fake)) == 1)
        for name in (theirs["executionId"], theirs["jobName"]):
            asked = {"argv": ["echo", "mine"], "execution_id": name, "seconds": 60}
            body = {"kind": "command", "input": asked}
            made = await http.post("/v1/jobs", json=body, headers=keys["b"])
            job = await engine.wait(made.json()["id"], 60, "b")
            assert job.result is not None
            assert "secret" not in job.result
            assert '"stdout":"mine\\n"' in job.result
        assert names(fake).count(theirs["jobName"]) == 1
        assert fake.count("DELETE", theirs["jobName"]) == 0
        await http.post(f"/v1/jobs/{theirs['executionId']}/cancel", headers=keys["a"])
        await until(lambda: fake.count("DELETE", theirs["jobName"]) == 1)


@pytest.fixture
def start_worker(
    fake: FakeCluster, tmp_path: Path, cluster_environment: dict[str, str]
) -> Iterator[Callable[[], Popen[bytes]]]:
    """Start workers as processes that can be killed."""
    cluster = {"server": f"http://127.0.0.1:{fake.port}"}
    known = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "fake", "cluster": cluster}],
        "users": [{"name": "nobody", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "fake", "user": "nobody"}}],
        "current-context": "c",
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(known))
    started: list[Popen[bytes]] = []

    def start() -> Popen[bytes]:
        settings = environment(
            COATCHECK_DATABASE=f"sqlite:///{tmp_path}/jobs.db",
            COATCHECK_SWEEP_S="0.2",
            KUBECONFIG=str(tmp_path / "kubeconfig"),
            K8S_NAMESPACE=fake.namespace,
            **cluster_environment,
        )
        started.append(Popen([*COMMAND, "worker"], cwd=tmp_path, env=settings, stderr=DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


async def start_and_kill_worker(
    http: httpx2.AsyncClient,
    engine: Engine,
    fake: FakeCluster,
    start_worker: Callable[[], Popen[bytes]],
) -> httpx2.Response:
    """Return an execution whose worker was killed after recording the start."""
    path = await put_task(http, ["sh", "-c", "echo up; until [ -e go ]; do sleep 0.02; done"])
    accepted = await http.put(f"{path}?async=true")
    worker = start_worker()
    await noted(engine, accepted, "begun")
    os.kill(worker.pid, signal.SIGKILL)
    await asyncio.to_thread(worker.wait)
    return accepted


async def noted(engine: Engine, accepted: httpx2.Response, what: str) -> None:
    """Wait until an execution's notes contain an event."""
    async with asyncio.timeout(60):
        while f'["{what}"' not in str(await steps(engine, accepted)):  # noqa: ASYNC110 - no signal
            await asyncio.sleep(0.01)


def unscheduled(fake: FakeCluster) -> list[str]:
    """Return the names of pods that no node has capacity for."""
    return [
        pod["metadata"]["name"]
        for pod in fake.objects.list("pods", {})
        if any(each["status"] == "False" for each in pod["status"]["conditions"])
    ]


async def steps(engine: Engine, accepted: httpx2.Response) -> list[Step]:
    return await engine.steps(accepted.json()["executionId"])


async def test_job_of_a_killed_worker_is_taken_over(  # T14
    serve: Serve,
    surface: Callable[[], TaskSurface],
    fake: FakeCluster,
    start_worker: Callable[[], Popen[bytes]],
) -> None:
    async with serve(surface(), works=False) as (http, engine):
        accepted = await start_and_kill_worker(http, engine, fake, start_worker)
        assert names(fake) == [accepted.json()["jobName"]]
        start_worker()
        await until(lambda: fake.count("GET", f"/jobs/{names(fake)[0]}") > 1)
        await until(lambda: len(fake.controller.containers) == 1)
        for container in fake.controller.containers.values():
            (container.folder / "go").touch()
        shown = await wait_finished(http, accepted)
        assert (shown["status"], shown["stdout"]) == ("SUCCEEDED", "up\n")
        assert fake.controller.started == 1
        assert (await engine.get(accepted.json()["executionId"])).attempt == 2


async def test_deleted_job_is_not_run_again(  # T14
    serve: Serve,
    surface: Callable[[], TaskSurface],
    fake: FakeCluster,
    start_worker: Callable[[], Popen[bytes]],
) -> None:
    async with serve(surface(), works=False) as (http, engine):
        accepted = await start_and_kill_worker(http, engine, fake, start_worker)
        job = fake.objects.get("jobs", accepted.json()["jobName"])
        assert job is not None
        await fake.controller.delete(job)  # as the cluster does after the Job's TTL
        start_worker()
        shown = await wait_finished(http, accepted)
        assert shown["status"] == "FAILED"
        assert "it is not run again" in shown["stderr"]
        found = await engine.get(accepted.json()["executionId"])
        assert found.error is not None
        assert found.error.code == "outcome-unknown"
        assert fake.controller.started == 1


async def test_evicted_command_is_retried(
    serve: Serve, surface: Callable[[], TaskSurface], fake: FakeCluster, tmp_path: Path
) -> None:
    mark = tmp_path / "tried"
    script = f"if [ -e {mark} ]; then echo well; else touch {mark}; exec sleep 600; fi"
    async with serve(surface()) as (http, engine):
        path = await put_task(http, ["sh", "-c", script])
        accepted = await http.put(f"{path}?async=true")
        await until(mark.exists)
        await fake.controller.evict(accepted.json()["jobName"])
        shown = await wait_finished(http, accepted)
        assert (shown["status"], shown["stdout"]) == ("SUCCEEDED", "well\n")
        notes = [json.loads(step.result or "[]")[0] for step in await steps(engine, accepted)]
        # A pod may or may not be seen running before it is gone.
        known = [note for note in notes if note != "running"]
        assert known == ["looked", "begun", "given up", "looked", "begun"]


def names(fake: FakeCluster) -> list[str]:
    return [job["metadata"]["name"] for job in fake.objects.list("jobs", {})]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that the cluster does not signal."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it gives none
            await asyncio.sleep(0.01)
