"""PostgreSQL is backed up and restored with its own tools, by the commands of the how-to."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cli.backup_jobs import finish, put_in, take_effects
from tests.docs.pages import ROOT
from tests.faults.place import Place, postgres_place
from tests.faults.server import Server

from .server import TrialServer

PAGE = ROOT / "docs/how-to/backup.md"
SCHEMA = "coatcheck"


@pytest.fixture
def server() -> Iterator[TrialServer]:
    """A server that comes with the tools of its own version."""
    with TrialServer() as server:
        yield server


def _database(server: TrialServer, folder: Path, name: str) -> Place:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    (folder / name).mkdir()
    parts = urlsplit(server.dsn)
    dsn = f"{parts.scheme}://{parts.netloc}/{name}?{parts.query}"
    return postgres_place(folder / name, dsn, SCHEMA)


def test_a_server_on_the_restored_database_finishes_every_job(
    server: TrialServer, tmp_path: Path
) -> None:
    here, there = (_database(server, tmp_path, name) for name in ("here", "there"))
    section = PAGE.read_text().partition("## PostgreSQL")[2]
    dump, restore = section.partition("```sh\n")[2].partition("```")[0].splitlines()

    def run(command: str, place: Place) -> None:
        path = f"{server.tools}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "DSN": place.database}
        subprocess.run(["sh", "-c", command], cwd=tmp_path, env=environment, check=True)

    with Server(here) as original:
        jobs = put_in(original)
        take_effects(here, there)
        run(dump, here)
        late = original.client.submit("quick", 1)
        assert original.client.wait(late.id)["state"] == "succeeded", "the original goes on"
    run(restore, there)
    finish(there, jobs, late.id)
