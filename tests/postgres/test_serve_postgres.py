"""`coatcheck serve` on PostgreSQL, end to end, in the production profile."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from coatcheck import Client
from coatcheck.clock import SystemClock
from coatcheck.store.postgres.store import PostgresStore
from coatcheck.testing.checker import (
    Bounds,
    EffectLog,
    Orphan,
    RunRecord,
    Submit,
    check,
    read_records,
)
from tests.cli.processes import run_to_end, running
from tests.faults.place import SWEEP_S, postgres_place
from tests.faults.server import UNHURRIED_LEASES_S, Server
from tests.store.another_process import ROOT

from .working import states_of

PASSWORD = "swordfish"
# A busy machine is late; what is measured here would otherwise take a whole lease more.
SLACK_S = 5.0


@pytest.fixture
def with_password(dsn: str) -> str:
    """The same address with a password in it, which this server does not ask for."""
    return dsn.replace("postgres:@", f"postgres:{PASSWORD}@")


@pytest.fixture
def reference(with_password: str, tmp_path: Path) -> str:
    """A reference to the address, as a mounted secret gives it."""
    secret = tmp_path / "secret"
    secret.write_text(with_password + "\n")
    secret.chmod(0o600)
    return f"file:{secret}"


@pytest.fixture
def server(reference: str, schema: str, tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "server"
    folder.mkdir()
    pepper = tmp_path / "pepper"
    pepper.write_text("a pepper of sixteen characters or more")
    settings = {"profile": "production", "pepper": f"file:{pepper}"}
    named = {f"COATCHECK_{name.upper()}": value for name, value in settings.items()}
    there = {"COATCHECK_DATABASE": reference, "COATCHECK_SCHEMA": schema}
    made = run_to_end("keys", "create", "--json", folder=folder, **there, **named)
    assert made.returncode == 0, made.stderr
    place = postgres_place(folder, reference, schema)
    with Server(place, key=json.loads(made.stdout)["key"], **settings) as server:
        yield server


def test_a_server_in_production_runs_jobs_and_keeps_the_secret(server: Server) -> None:
    children = [server.child(name) for name in ("api", "worker")]
    assert server.client.run("quick", 21)["n"] == 21
    handles = [server.client.submit("quick", n) for n in range(20)]
    assert [handle.result(60)["n"] for handle in handles] == list(range(20))
    for pid in [server.process.pid, *children]:
        for what in ("environ", "cmdline"):
            assert PASSWORD.encode() not in Path(f"/proc/{pid}/{what}").read_bytes()
    assert server.terminate() == 0


@pytest.mark.anyio
async def test_a_killed_worker_s_job_is_back_within_a_lease_and_two_sweeps_and_ends_once(
    server: Server, dsn: str, schema: str
) -> None:
    worker = server.child("worker")
    handle = server.client.submit("held", 1)
    while handle.refresh()["progress"] is None:
        pass  # each look is a request: it waits for the server, not for time
    os.kill(worker, signal.SIGKILL)
    killed = SystemClock().now()
    server.wait_for_log("worker lost", jobs=1)
    server.open_gate()
    job = server.client.wait(handle.id)
    assert (job["state"], job["attempt"], job["result"]["n"]) == ("succeeded", 2, 1)
    assert server.terminate() == 0

    store = PostgresStore(dsn, schema=schema)
    await store.open()
    states = await states_of(store, handle.id)
    submits = [Submit(handle.id)]
    run = RunRecord(
        submits,
        await read_records(store, submits),
        effects=EffectLog(server.place.folder / "effects").read(),
        orphans=[Orphan(handle.id, 1, killed)],
        bounds=Bounds(UNHURRIED_LEASES_S["postgres"], SWEEP_S, SLACK_S),
    )
    check(run)
    assert states == ["queued", "running", "queued", "running", "succeeded"]
    assert await store.workers.list_workers() == []
    await store.close()


APP = str(ROOT / "tests" / "faults" / "app.py") + ":app"
COMMANDS = {
    "serve": ["serve", APP, "--port", "0"],
    "serve in one process": ["serve", APP, "--port", "0", "--in-process"],
    "worker": ["worker", APP],
    "migrate": ["migrate"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
# I14: in production the address comes from a secret reference only.
def test_an_address_in_clear_is_refused_in_production_and_not_printed(
    with_password: str, tmp_path: Path, command: list[str]
) -> None:
    ended = run_to_end(
        *command,
        folder=tmp_path,
        COATCHECK_DATABASE=with_password,
        COATCHECK_PROFILE="production",
        FAULT_FOLDER=str(tmp_path),
    )
    assert ended.returncode == 78
    assert "file:/run/secrets/dsn" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert PASSWORD not in ended.stdout + ended.stderr
    assert "host=" not in ended.stdout + ended.stderr


def test_so_is_an_address_in_clear_to_listen_at(
    with_password: str, reference: str, schema: str, tmp_path: Path
) -> None:
    ended = run_to_end(
        "migrate",
        folder=tmp_path,
        COATCHECK_DATABASE=reference,
        COATCHECK_LISTEN=with_password,
        COATCHECK_SCHEMA=schema,
        COATCHECK_PROFILE="production",
    )
    assert ended.returncode == 78
    assert PASSWORD not in ended.stdout + ended.stderr


@pytest.mark.parametrize("mode", [(), ("--in-process",)], ids=["supervised", "in-process"])
def test_outside_production_an_address_in_clear_works_and_is_still_not_printed(
    with_password: str, schema: str, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    with running(
        *("serve", APP, "--port", "0", *mode),
        folder=tmp_path,
        COATCHECK_DATABASE=with_password,
        COATCHECK_SCHEMA=schema,
        FAULT_FOLDER=str(tmp_path),
    ) as command:
        with Client(command.url()) as client:
            assert client.run("quick", 2)["n"] == 2
        assert command.stop() == 0
        printed = command.stdout.until_end() + command.stderr.until_end()
    assert PASSWORD not in "\n".join(printed)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"", "is empty"),
        (b"\xff\xfe", "not UTF-8"),
        (b"swordfish", "is not a database"),
        (b"postgresql://ada:swordfish@127.0.0.1:notaport/jobs", "cannot be used"),
        (b"postgresql://ada:swordfish@/jobs?host=/tmp&nonsense=1&port=x", "cannot be used"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_matter_of_configuration(
    tmp_path: Path, content: bytes | None, said: str
) -> None:
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    ended = run_to_end("migrate", folder=tmp_path, COATCHECK_DATABASE=f"file:{tmp_path}/secret")
    assert ended.returncode == 78, ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert PASSWORD not in ended.stdout + ended.stderr


def test_a_server_that_is_not_there_is_worth_another_try(tmp_path: Path) -> None:
    ended = run_to_end(
        "migrate",
        folder=tmp_path,
        COATCHECK_DATABASE=f"postgresql://ada:{PASSWORD}@127.0.0.1:1/jobs",
    )
    assert ended.returncode == 75
    assert "Traceback" not in ended.stderr
    assert PASSWORD not in ended.stdout + ended.stderr
