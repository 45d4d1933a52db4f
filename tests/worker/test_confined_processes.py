"""Confined kinds: a process that hostile input has taken over reaches nothing outside it."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submission import Submission
from coatcheck.errors import ConfigurationError
from coatcheck.model.confinement import Confinement
from coatcheck.model.state import State
from coatcheck.sandbox.lockdown import walls_here

from . import confined_app
from .conftest import SETTINGS, working

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not walls_here().complete, reason=f"no walls: {walls_here().missing}"),
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


async def test_a_hostile_handler_reaches_nothing(engine: Engine, tmp_path: Path) -> None:
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


async def test_it_has_a_clean_environment_and_a_folder_of_its_own(
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


async def test_a_tenant_that_works_alone_finds_its_process_warm(engine: Engine) -> None:
    async with working(engine, ONE):
        pids = {await result_of(engine, "brief", tenant="a") for _ in range(4)}
        others = {await result_of(engine, "brief", tenant="b") for _ in range(4)}
    assert (len(pids), len(others)) == (1, 1)
    assert not pids & others


async def test_its_files_can_be_read_and_nothing_planted_beside_them(
    engine: Engine, tmp_path: Path
) -> None:
    given = tmp_path / "given.txt"
    given.write_text("the content")
    upload = await engine.uploads.receive(given.read_bytes(), "given.txt", "text/plain")
    async with working(engine, ONE):
        seen = await result_of(engine, "read_upload", {"upload": upload.id})
    assert seen == {
        "content": "the content",
        "write": "PermissionError",
        "plant": "PermissionError",
    }


async def test_its_service_answers_in_the_worker_for_the_jobs_own_tenant(engine: Engine) -> None:
    async with working(engine, ONE):
        said = await result_of(engine, "ask", "hello", tenant="a")
    assert said == f"a echo hello {os.getpid()}"


def test_only_a_handler_in_a_process_can_be_confined() -> None:
    with pytest.raises(ConfigurationError, match="a handler can only be confined"):
        App().job("k", confinement=Confinement())(lambda ctx: None)
