"""The faults of docs/reliability.md at small scale. Each run ends with a check of every promise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.server import TrialServer

from .api_kills import kill_apis
from .freezes import freeze_workers
from .kills import kill_at_checkpoints, kill_with_processes, kill_workers
from .launcher import Launcher
from .outages import drop_connections, restart_postgres
from .place import Place, postgres_place
from .shared_store import crowd, race_cancels, restart_in_mid_drain

# A process frozen in the middle of a transaction costs the others five seconds, ten of them on a
# busy machine a minute or two.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(400)]


async def test_workers_are_killed_at_every_point(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_workers(place, launcher, kills=50, seed=seed)
    assert tally.violations == []
    assert tally.tried == 50
    assert tally.heard
    assert tally.purged


async def test_workers_are_killed_before_and_after_every_checkpoint(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_at_checkpoints(place, launcher, kills=50, seed=seed)
    assert tally.violations == []
    assert tally.tried == 50


async def test_workers_are_killed_whose_handlers_run_in_processes(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_with_processes(place, launcher, kills=7, seed=seed)
    assert tally.violations == []
    assert tally.tried == 7
    assert tally.heard
    assert tally.purged


async def test_workers_are_frozen_past_their_lease(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await freeze_workers(place, launcher, freezes=10, seed=seed)
    assert tally.violations == []
    assert tally.tried == 10
    assert tally.notes["stale writes refused"] > 0


async def test_the_api_is_killed_between_commit_and_response(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await kill_apis(place, launcher, kills=20, seed=seed)
    assert tally.violations == []
    assert (tally.tried, tally.jobs) == (20, 20)


async def test_eight_processes_share_a_store(place: Place, launcher: Launcher, seed: int) -> None:
    tally = await crowd(place, launcher, jobs=2_000, seed=seed)
    assert tally.violations == []
    assert tally.jobs == 2_000


async def test_cancels_race_with_settles(place: Place, launcher: Launcher, seed: int) -> None:
    tally = await race_cancels(place, launcher, races=200, seed=seed)
    assert tally.violations == []
    assert tally.tried == 200
    for end in ("cancelled", "succeeded", "failed"):  # neither side has won them all
        assert tally.notes[end] > 0, tally.notes


async def test_a_worker_is_restarted_in_mid_drain(
    place: Place, launcher: Launcher, seed: int
) -> None:
    tally = await restart_in_mid_drain(place, launcher, restarts=10, seed=seed)
    assert tally.violations == []
    assert tally.tried == 10


async def test_connections_break_when_commit_was_sent(
    postgres: Place, launcher: Launcher, seed: int
) -> None:
    tally = await drop_connections(postgres, launcher, drops=20, seed=seed)
    assert tally.violations == []
    assert tally.tried == 20


@pytest.fixture
def server() -> Iterator[TrialServer]:
    """A server that may be stopped."""
    with TrialServer() as server:
        yield server


async def test_postgres_restarts_while_workers_are_killed(
    server: TrialServer, folder: Path, launcher: Launcher, seed: int
) -> None:
    place = postgres_place(folder, server.dsn, "coatcheck")
    tally = await restart_postgres(place, launcher, server, cycles=4, seconds=20, seed=seed)
    assert tally.violations == []
    assert tally.tried >= 4
    assert tally.notes["workers killed"] > tally.tried
    assert tally.seconds > 20
