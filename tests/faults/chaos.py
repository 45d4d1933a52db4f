"""The fault tests at scale: `make chaos`, or `python -m tests.faults.chaos [FAULT[:STORE] ...]`.

`CHAOS_SCALE` (1.0) multiplies how often each fault is injected, `CHAOS_SECONDS` (6000) limits the
whole run. Each fault gets a share of the time, by its measured duration, and runs in rounds until
the share is used up. Unused time goes to the faults after it. `CHAOS_SEED` repeats a run.

Prints a table. In a full run, the findings of each fault replace its earlier findings in
`docs/reliability.json` and in the table of `docs/reliability.md` as soon as the fault is done, so a
run that is cut short, or that covers some faults only, counts as far as it got. Exits with 1 if any
promise was broken.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.postgres.server import TrialServer

from .api_kills import kill_apis
from .clocks import jump
from .disks import run_out_of_room, tear_tails
from .freezes import freeze_workers
from .kills import kill_at_checkpoints, kill_with_processes, kill_workers
from .launcher import ROOT, Launcher
from .nth_call import PERSISTENTLY, fail_on_every_call
from .outages import drop_connections, restart_postgres
from .place import Place, postgres_place, sqlite_place
from .shared_store import crowd, race_cancels, restart_in_mid_drain
from .stage import Tally

BEGIN, END = "<!-- the table begins -->", "<!-- the table ends -->"


class Ground(NamedTuple):
    """What a fault is tried on: a fresh store, and who may be struck."""

    place: Place
    launcher: Launcher
    server: TrialServer
    seed: int


class Fault(NamedTuple):
    """A fault, how often it is tried in all, and how many at most in one round on a fresh store;
    where it is tried, and how many seconds a try took there.
    """

    name: str
    tries: int
    in_a_round: int
    stores: Mapping[str, float]
    run: Callable[[Ground, int], Awaitable[Tally]]


async def _nth_call(ground: Ground, variant: int) -> Tally:
    times, first_does = (1, PERSISTENTLY)[variant % 2], variant > 2
    return await fail_on_every_call(
        ground.place, seed=ground.seed, times=times, first_does=first_does
    )


def _both(sqlite: float, postgres: float) -> Mapping[str, float]:
    return {"sqlite": sqlite, "postgres": postgres}


FAULTS = (
    Fault(
        "kill",
        5_000,
        200,
        _both(0.12, 0.15),
        lambda g, n: kill_workers(*g[:2], kills=n, seed=g.seed),
    ),
    Fault(
        "checkpoint",
        5_000,
        200,
        _both(0.12, 0.16),
        lambda g, n: kill_at_checkpoints(*g[:2], kills=n, seed=g.seed),
    ),
    Fault(
        "isolated",
        500,
        50,
        _both(0.6, 0.8),
        lambda g, n: kill_with_processes(*g[:2], kills=n, seed=g.seed),
    ),
    Fault(
        "freeze",
        500,
        50,
        _both(0.31, 0.46),
        lambda g, n: freeze_workers(*g[:2], freezes=n, seed=g.seed),
    ),
    Fault(
        "api", 1_000, 200, _both(0.06, 0.16), lambda g, n: kill_apis(*g[:2], kills=n, seed=g.seed)
    ),
    Fault("nth-call", 4, 1, _both(5.0, 12.0), _nth_call),
    Fault(
        "restart",
        200,
        20,
        {"postgres": 1.8},
        lambda g, n: restart_postgres(*g[:3], cycles=n, seed=g.seed, jobs=100 * n),
    ),
    Fault(
        "drop",
        1_000,
        200,
        {"postgres": 0.18},
        lambda g, n: drop_connections(*g[:2], drops=n, seed=g.seed),
    ),
    Fault(
        "crowd",
        50_000,
        10_000,
        _both(0.011, 0.013),
        lambda g, n: crowd(*g[:2], jobs=n, seed=g.seed),
    ),
    Fault(
        "disk",
        200,
        200,
        {"sqlite": 0.03},
        lambda g, n: run_out_of_room(g.place, times=n, seed=g.seed),
    ),
    Fault(
        "torn", 200, 100, {"sqlite": 0.05}, lambda g, n: tear_tails(g.place, times=n, seed=g.seed)
    ),
    Fault("clock", 1, 1, _both(0.4, 0.5), lambda g, _: jump(g.place, seed=g.seed)),
    Fault(
        "cancel",
        10_000,
        2_000,
        _both(0.004, 0.008),
        lambda g, n: race_cancels(*g[:2], races=n, seed=g.seed),
    ),
    Fault(
        "drain",
        200,
        50,
        _both(0.45, 1.05),
        lambda g, n: restart_in_mid_drain(*g[:2], restarts=n, seed=g.seed),
    ),
)


@contextmanager
def ground(store: str, launcher: Launcher, server: TrialServer, seed: int) -> Iterator[Ground]:
    """Make a fresh store in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        os.environ["FAULT_FOLDER"] = name
        schema = f"chaos_{time.monotonic_ns()}"
        place = (
            sqlite_place(folder)
            if store == "sqlite"
            else postgres_place(folder, server.dsn, schema)
        )
        yield Ground(place, launcher, server, seed)


class Row(NamedTuple):
    """A line of the report."""

    fault: str
    store: str
    tried: int
    jobs: int
    lost: int
    doubled: int
    broken: int
    seed: int  # the first of its rounds'; the others follow
    recovery_p50_ms: int | None
    recovery_max_ms: int | None
    seconds: float


def summarise(tallies: list[Tally], seed: int) -> Row:
    """Add the rounds of one fault on one store up."""
    times = sorted(ms for tally in tallies for ms in tally.recovery_ms)
    return Row(
        tallies[0].fault,
        tallies[0].store,
        sum(tally.tried for tally in tallies),
        sum(tally.jobs for tally in tallies),
        sum(tally.lost for tally in tallies),
        sum(tally.doubled for tally in tallies),
        sum(len(tally.violations) for tally in tallies),
        seed,
        round(statistics.median(times)) if times else None,
        times[-1] if times else None,
        round(sum(tally.seconds for tally in tallies), 1),
    )


def table(rows: list[Row]) -> str:
    """Write the rows as a table for people."""
    lines = [
        "| fault | store | tried | jobs | lost | doubled | back in the queue p50 / max |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        back = (
            ""
            if row.recovery_p50_ms is None
            else f"{row.recovery_p50_ms} / {row.recovery_max_ms} ms"
        )
        numbers = f"{row.tried:,} | {row.jobs:,} | {row.lost} | {row.doubled}"
        lines.append(f"| {row.fault} | {row.store} | {numbers} | {back} |")
    return "\n".join(lines)


def run_all(
    names: list[str], scale: float, seconds: float, seed: int, found: Callable[[Row], None]
) -> None:
    """Try every fault, or those that are named, within the time there is; tell of each."""
    chosen = [
        (fault, store)
        for fault in FAULTS
        for store in fault.stores
        if not names or {fault.name, f"{fault.name}:{store}"} & set(names)
    ]
    until = time.monotonic() + seconds
    with TrialServer() as server, Launcher() as launcher:
        for number, (fault, store) in enumerate(chosen):
            to_come = sum(each.tries * each.stores[where] for each, where in chosen[number:])
            share = fault.tries * fault.stores[store] / to_come
            enough = time.monotonic() + share * max(0.0, until - time.monotonic())
            left = max(1, round(fault.tries * scale))
            tallies: list[Tally] = []
            first = seed + 1
            while left > 0 and time.monotonic() < enough:
                count = min(left, fault.in_a_round)
                seed += 1
                with ground(store, launcher, server, seed) as on:
                    variant = left if fault.name == "nth-call" else count
                    tallies.append(asyncio.run(fault.run(on, variant)))  # type: ignore[arg-type]  # they are coroutines
                left -= count
            if tallies:
                found(summarise(tallies, first))
            else:
                print(f"{fault.name} on {store}: left out, the time is up")


def write_report(row: Row, page: Path) -> None:
    """Put what was found in the place of what had been, and show it on the page."""
    kept = page.with_suffix(".json")
    rows = [Row(**each) for each in json.loads(kept.read_text())]
    of = (row.fault, row.store)
    places = [(each.fault, each.store) for each in rows]
    if of in places:
        rows[places.index(of)] = row
    else:
        rows.append(row)
    kept.write_text(json.dumps([each._asdict() for each in rows], indent=1) + "\n")
    text = page.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{table(rows)}\n\n{END}{after}")


def main() -> int:
    scale = float(os.environ.get("CHAOS_SCALE", "1"))
    seconds = float(os.environ.get("CHAOS_SECONDS", "6000"))
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1_000_000)))
    print(f"chaos: seed {seed}, scale {scale:g}, at most about {seconds:g} s")
    logging.disable(logging.WARNING)  # that workers are lost is what this is about
    rows: list[Row] = []

    def found(row: Row) -> None:
        rows.append(row)
        if scale >= 1:
            write_report(row, ROOT / "docs" / "reliability.md")

    run_all(sys.argv[1:], scale, seconds, seed, found)
    print(table(rows))
    return 1 if any(row.broken for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
