"""Confined kinds: a process taken over by hostile input has no access outside."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App
from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import ConfigurationError
from coatcheck.model.confinement import Confinement
from coatcheck.model.kind import Kind
from coatcheck.model.options import SurfaceOptions
from coatcheck.model.state import State
from coatcheck.sandbox.lockdown import detect_protections
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.surfaces.installed import installed_surfaces
from coatcheck.worker.processes.pool import ProcessRunner

from . import confined_app
from .conftest import SETTINGS, working

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not detect_protections().complete, reason=f"no walls: {detect_protections().missing}"
    ),
]

ONE = replace(SETTINGS, processes=1)
TWO = replace(SETTINGS, processes=2)


@pytest.fixture
def app() -> App:
    return confined_app.app


async def result_of(engine: Engine, kind: str, input_: Any = None, tenant: str = "default") -> Any:
    submitted = await engine.submit(Submission(kind, json.dumps(input_), tenant=tenant))
    job = await engine.wait(submitted.id, 60, tenant=tenant)
    assert job.state is State.SUCCEEDED, job.error
    return json.loads(job.result or "null")


async def test_a_hostile_handler_is_confined(engine: Engine, tmp_path: Path) -> None:
    secret = tmp_path / "pepper"
    secret.write_text("the pepper")
    secret.chmod(0o600)
    before = secret.stat()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "service"))
        local.listen()
        target = {
            "port": server.getsockname()[1],
            "unix": str(tmp_path / "service"),
            "secret": str(secret),
        }
        async with working(engine, ONE):
            came_of = await result_of(engine, "attack", target)
    assert {name: what for name, what in came_of.items() if what.startswith("done")} == {}
    after = secret.stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    assert secret.read_text() == "the pepper"


async def test_a_confined_process_has_a_clean_environment_and_its_own_folder(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COATCHECK_DATABASE", "COATCHECK_PEPPER", "INGEST_EMBED_KEY", "AWS_SECRET_KEY"):
        monkeypatch.setenv(name, "a credential")
    monkeypatch.setenv("ALLOWED", "public")
    async with working(engine, ONE):
        seen = await result_of(engine, "surroundings")
    assert "a credential" not in seen["environment"].values()
    assert seen["environment"]["ALLOWED"] == "public"
    folder = Path(seen["folder"])
    assert Path(seen["temporary"]).parent == folder
    assert seen["environment"]["HOME"] == seen["environment"]["TMPDIR"] == str(folder)
    kinds = [
        target.partition(":")[0]
        for number, target in seen["descriptors"].items()
        if int(number) > 2
    ]
    assert set(kinds) <= {"socket", "anon_inode", f"/proc/{seen['pid']}/statm"}


async def test_no_process_serves_two_tenants(engine: Engine) -> None:
    tenants = ["a", "b", "a", "c", "b", "a", "c", "a", "b"]
    async with working(engine, TWO):
        seen = [await result_of(engine, "surroundings", tenant=tenant) for tenant in tenants]
    owners: dict[int, set[str]] = {}
    for each in seen:
        owners.setdefault(each["pid"], set()).add(each["tenant"])
    assert [len(tenants) for tenants in owners.values()] == [1] * len(owners)
    assert len(owners) >= 3


async def test_a_single_tenant_reuses_its_warm_processes(engine: Engine) -> None:
    async with working(engine, ONE):
        pids = {await result_of(engine, "brief", tenant="a") for _ in range(4)}
        others = {await result_of(engine, "brief", tenant="b") for _ in range(4)}
    assert (len(pids), len(others)) == (1, 1)
    assert not pids & others


async def test_the_inbox_is_read_only(app: App, store: Store, tmp_path: Path) -> None:
    blobs = blobs_for(Settings(database=f"sqlite:///{tmp_path}/jobs.db"))
    engine = Engine(store, app.kinds, blobs=blobs)
    uploaded = await engine.uploads.receive(b"the content", "given.txt", "text/plain")
    async with working(engine, ONE):
        seen = await result_of(engine, "read_upload", {"upload": uploaded.upload.id})
    assert seen == {
        "content": "the content",
        "write": "PermissionError",
        "plant": "PermissionError",
    }
    blobs.close()


async def test_the_service_runs_in_the_worker_for_the_jobs_tenant(engine: Engine) -> None:
    async with working(engine, ONE):
        said = await result_of(engine, "ask", "hello", tenant="a")
    assert said == f"a echo hello {os.getpid()}"


def test_only_a_handler_in_a_process_can_be_confined() -> None:
    with pytest.raises(ConfigurationError, match="confinement needs isolation='process'"):
        App().job("k", surface=SurfaceOptions(confinement=Confinement()))(lambda ctx: None)


def built_in_kinds() -> list[Kind]:
    app = App()
    for _, surface, _, _ in installed_surfaces():
        if surface is not None:
            app.use(surface)
    return [kind for kind in app.kinds.values() if kind.isolation == "process"]


def test_every_built_in_kind_in_a_process_is_confined() -> None:
    kinds = built_in_kinds()
    assert {kind.name for kind in kinds} >= {"render", "graph", "ingest.document"}
    assert [kind.name for kind in kinds if kind.confinement is None] == []


async def test_the_processes_of_the_built_in_kinds_have_no_credentials_and_no_network(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inspects the environment, the restrictions and the descriptors of real processes from
    outside.
    """
    monkeypatch.setenv("COATCHECK_DATABASE", "postgresql://someone:a-credential@db/jobs")
    monkeypatch.setenv("COATCHECK_PEPPER", "a-credential")
    engine = Engine(store, {kind.name: kind for kind in built_in_kinds()})
    async with working(engine, ONE) as worker:
        drawn = {"source": "flowchart LR\n  A --> B", "format": "mermaid"}
        await result_of(engine, "render", drawn)
        pool = worker._runners["process"]
        assert isinstance(pool, ProcessRunner)
        for pid in pool.pids():
            check_process(pid)


def check_process(pid: int) -> None:
    assert b"a-credential" not in Path(f"/proc/{pid}/environ").read_bytes()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines)
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    targets = [str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()]
    assert not [each for each in targets if "jobs.db" in each]
