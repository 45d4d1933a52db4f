"""A soak test: a mixed load for half an hour, during which nothing may grow.

    python -m tests.faults.soak [--seconds 1800] [--store sqlite|postgres]

A real `coatcheck serve` gets jobs of every kind over HTTP. Each is waited for, followed, cancelled
or answered, and its retention ends twenty seconds after it has finished. Meanwhile the memory and
open descriptors of every process of the server are measured, and the size of the store, except for
what outlives a job by design: its id and its idempotency key are kept for days. The last quarter is
compared with the second; the first is for warming up. The number of stored jobs depends on the rate
of the load, so the rate is steady: each client starts something every second, unless its last job
takes longer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import asyncpg

from coatcheck import AsyncClient, NewJob
from coatcheck.errors import JobCancelled, JobFailed, TimedOut
from tests.cli.processes import running
from tests.postgres.server import TrialServer

from . import soak_app
from .place import LEASE_S

CLIENTS = 8
EVERY_S = 1.0
LARGE = "x" * 100_000
# What the last quarter may have more than the second.
BOUNDS = {"memory, MiB": (1.1, 8.0), "descriptors": (1.0, 8.0), "store, MiB": (1.05, 2.0)}
# What outlives its job by promise, for days: that it was there, and the key it was handed in under.
KEPT = "kept for days, MiB"
KEPT_TABLES = ("tombstones", "idempotency")
PACE = "calls of a client a minute"


@dataclass
class Soaked:
    """What was done, and what was seen meanwhile."""

    store: str
    seconds: float = 0.0
    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seen: dict[str, list[float]] = field(
        default_factory=lambda: {name: [] for name in (*BOUNDS, KEPT, PACE)}
    )

    def quarters(self, name: str) -> tuple[float, float]:
        """Return the median of the second and of the last quarter."""
        samples = self.seen[name]
        quarter = len(samples) // 4
        return (
            statistics.median(samples[quarter : 2 * quarter]),
            statistics.median(samples[-quarter:]),
        )

    def grown(self) -> list[str]:
        """Name what has grown beyond its bounds."""
        found = []
        for name, (factor, more) in BOUNDS.items():
            early, late = self.quarters(name)
            if late > early * factor + more:
                found.append(f"{name}: {early:.1f} became {late:.1f}")
        return found


async def _run(client: AsyncClient, kind: str, n: object, expected: object) -> str:
    result = await client.run(kind, n, timeout=120)
    return "" if result == expected else f"{kind}({n!r:.20}) gave {result!r:.40}"


async def _fails(client: AsyncClient, n: int) -> str:
    try:
        await client.run("hopeless", n, timeout=120)
    except JobFailed as error:
        return "" if error.error_code == "hopeless" else f"hopeless: {error}"
    return "hopeless has succeeded"


async def _cancels(client: AsyncClient, n: int) -> str:
    job = await client.submit("patient", n)
    await job.cancel()
    try:
        await job.result(120)
    except JobCancelled:
        return ""
    return "a cancelled job has succeeded"


async def _answers(client: AsyncClient, n: int) -> str:
    job = await client.submit("asks", n)
    async for event in job.events():
        if event.type == "output":
            await job.send("answer", n)
    result = await job.result(120)
    return "" if result == n else f"asks({n}) was answered {result!r:.40}"


async def _downloads(client: AsyncClient, n: int) -> str:
    job = await client.submit("leaves_a_file", n)
    await job.result(120)
    content = await job.artifact("n.bin")
    return "" if content == n.to_bytes(4) * 50_000 else f"the file of {n} is another"


async def _batch(client: AsyncClient, n: int) -> str:
    jobs = await client.submit_batch([NewJob("on_loop", n + i) for i in range(20)])
    # At once: one that is asked for late may be gone by its retention.
    results = await asyncio.gather(*(job.result(120) for job in jobs))
    return "" if results == list(range(n, n + 20)) else f"a batch gave {results!r:.80}"


ACTS: dict[str, Callable[[AsyncClient, int], Awaitable[str]]] = {
    "on_loop": lambda client, n: _run(client, "on_loop", n, n),
    "in_thread": lambda client, n: _run(client, "in_thread", n, n),
    "in_process": lambda client, n: _run(client, "in_process", n, n),
    "large": lambda client, n: _run(client, "large", f"{n}{LARGE}", f"{LARGE}{str(n)[::-1]}"),
    "second_try": lambda client, n: _run(client, "second_try", n, n),
    "family": lambda client, _: _run(client, "family", 5, 10),
    "hopeless": _fails,
    "cancelled": _cancels,
    "answered": _answers,
    "downloaded": _downloads,
    "batch": _batch,
}


def processes_under(pid: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found


def memory_and_descriptors(pids: list[int]) -> tuple[float, int]:
    """Return the resident memory of processes in MiB, and how many descriptors they have open."""
    pages = descriptors = 0
    for pid in pids:
        try:
            pages += int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - only how many
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, descriptors


def size_of(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # it has just been removed
                size += (Path(where) / name).stat().st_size
    return size


async def stored(folder: Path, dsn: str | None) -> tuple[float, float]:
    """Return what the store takes up, files included, in MiB, and what is kept for days beside."""
    files = await asyncio.to_thread(size_of, folder)
    if dsn is None:
        kept = await asyncio.to_thread(_kept_in_file, folder / "jobs.db")
    else:
        connection = await asyncpg.connect(dsn)
        files += await connection.fetchval("SELECT pg_database_size(current_database())")
        kept = await connection.fetchval(
            "SELECT sum(pg_total_relation_size('coatcheck.' || name))::bigint"
            " FROM unnest($1::text[]) AS name",
            KEPT_TABLES,
        )
        await connection.close()
    return (files - kept) / 2**20, kept / 2**20


def _kept_in_file(database: Path) -> int:
    with contextlib.closing(apsw.Connection(str(database))) as connection:
        names = ", ".join(f"'{name}'" for name in KEPT_TABLES)
        found = connection.execute(
            "SELECT coalesce(sum(pgsize), 0) FROM dbstat WHERE name IN"
            f" (SELECT name FROM sqlite_schema WHERE tbl_name IN ({names}))"
        )
        return int(found.get)


async def soak(store: str, seconds: float, seed: int) -> Soaked:
    """Load a server of its own for so long."""
    soaked = Soaked(store, seconds)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        dsn = None if store == "sqlite" else stack.enter_context(TrialServer()).dsn
        server = stack.enter_context(
            running(
                *("serve", f"{soak_app.__file__}:app", "--port", "0"),
                folder=folder,
                COATCHECK_DATABASE=dsn or f"sqlite:///{folder}/jobs.db",
                COATCHECK_BLOBS=f"file://{folder}/blobs",
                COATCHECK_LEASE_S=str(LEASE_S * 5),
                COATCHECK_SWEEP_S="1",
                COATCHECK_LOG_LEVEL="error",
            )
        )
        async with AsyncClient(server.url()) as client, asyncio.TaskGroup() as clients:
            await client.put_schedule("every-second", "ticks", every_s=1)
            began, before = time.monotonic(), 0
            until = began + seconds
            for number in range(CLIENTS):
                # Each begins with its part of all that can be done, so that all of it is.
                chance, first = random.Random(seed + number), list(ACTS)[number::CLIENTS]
                clients.create_task(_load(client, chance, first, until, soaked))
            while time.monotonic() < until:
                await asyncio.sleep(min(10.0, seconds / 80))
                memory, descriptors = memory_and_descriptors(processes_under(server.pid))
                soaked.seen["memory, MiB"].append(memory)
                soaked.seen["descriptors"].append(descriptors)
                taken_up, kept = await stored(folder, dsn)
                soaked.seen["store, MiB"].append(taken_up)
                soaked.seen[KEPT].append(kept)
                since, began = began, time.monotonic()
                calls, before = soaked.done.total() - before, soaked.done.total()
                soaked.seen[PACE].append(60 * calls / (began - since))
    return soaked


async def _load(
    client: AsyncClient, chance: random.Random, first: list[str], until: float, soaked: Soaked
) -> None:
    while first or time.monotonic() < until:
        began = time.monotonic()
        act = first.pop() if first else chance.choice(list(ACTS))
        try:
            wrong = await ACTS[act](client, chance.randrange(1_000_000))
        except TimedOut as error:
            why = await client.explain(error.job_id)
            wrong = f"{error}: {why}"
        soaked.done[act] += 1
        if wrong:
            soaked.wrong.append(wrong)
        await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def table(soaked: Soaked) -> str:
    """Write what was seen as a table for people."""
    lines = [f"| {soaked.store}, {soaked.seconds:.0f} s | second quarter | last quarter |"]
    lines.append("|---|---|---|")
    for name in soaked.seen:
        early, late = soaked.quarters(name)
        lines.append(f"| {name} | {early:.1f} | {late:.1f} |")
    lines.append(f"| calls of a client | {soaked.done.total():,} | {len(soaked.wrong)} wrong |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.soak")
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--store", choices=("sqlite", "postgres"), action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    wanted = parser.parse_args()
    print(f"soak: seed {wanted.seed}")
    stores = wanted.store or ["sqlite", "postgres"]
    bad = False
    for soaked in asyncio.run(_soak_all(stores, wanted.seconds, wanted.seed)):
        print(table(soaked))
        for problem in (*soaked.grown(), *soaked.wrong[:10]):
            bad = True
            print("  ", problem)
    return bad


async def _soak_all(stores: list[str], seconds: float, seed: int) -> list[Soaked]:
    return list(await asyncio.gather(*(soak(store, seconds, seed) for store in stores)))


if __name__ == "__main__":
    sys.exit(main())
