"""The compared systems, each in the durable settings of its documentation, and how to run one.

A peer may take part in several settings; goals compare with the fastest of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.environments import ROOT, Unavailable, python_for, without_paths

# Longer than any successful run takes.
TIMEOUT_S = 240


@dataclass(frozen=True)
class Contestant:
    """One system in one setting."""

    name: str
    family: str
    label: str
    module: str
    variant: str
    # The number of concurrent callers that is fastest for this system.
    callers: int
    peer: str | None = None
    # Whether the system takes part in a quick run.
    essential: bool = False


OURS = Contestant(
    name="coatcheck",
    family="coatcheck",
    label="Coatcheck",
    module="benchmarks.ours",
    variant="default",
    callers=64,
    essential=True,
)
HUEY = Contestant(
    name="huey",
    family="huey",
    label="Huey, SqliteHuey fsync",
    module="benchmarks.peers.huey_peer",
    variant="sqlite3",
    callers=4,
    peer="huey",
    essential=True,
)
HUEY_CYSQLITE = Contestant(
    name="huey-cysqlite",
    family="huey",
    label="Huey, CySqliteHuey fsync",
    module="benchmarks.peers.huey_peer",
    variant="cysqlite",
    callers=4,
    peer="huey",
)
DBOS = Contestant(
    name="dbos",
    family="dbos",
    label="DBOS on SQLite, as shipped",
    module="benchmarks.peers.dbos_peer",
    variant="shipped",
    callers=4,
    peer="dbos",
    essential=True,
)
DBOS_WAL = Contestant(
    name="dbos-wal",
    family="dbos",
    label="DBOS on SQLite, switched to WAL",
    module="benchmarks.peers.dbos_peer",
    variant="wal",
    callers=4,
    peer="dbos",
)
DBOS_DIRECT = Contestant(
    name="dbos-direct",
    family="dbos",
    label="DBOS on SQLite, WAL, without a queue",
    module="benchmarks.peers.dbos_peer",
    variant="wal-direct",
    callers=4,
    peer="dbos",
)
EVERYBODY = (OURS, HUEY, HUEY_CYSQLITE, DBOS, DBOS_WAL)


class Failed(Exception):
    """A system failed a run; the message is for the report."""


def run(contestant: Contestant, verb: str, under: Path, **options: Any) -> dict[str, Any]:
    """Run one verb in a fresh process and return what it measured."""
    try:
        python = python_for(contestant.peer)
    except Unavailable as error:
        raise Failed(str(error)) from error
    command = [str(python), "-m", contestant.module, verb, "--under", str(under)]
    command += ["--variant", contestant.variant]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f"did not end within {TIMEOUT_S} s") from error
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise Failed(without_paths(last))
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer
