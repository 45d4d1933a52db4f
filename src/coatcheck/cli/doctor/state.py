"""What the store says of workers and queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from coatcheck.cli.doctor.findings import Finding, ok, warning
from coatcheck.cli.output.time_format import now, short
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter, QueueStatus, RegisteredWorker, Store

# Enough of the waiting jobs to see which kinds wait.
SAMPLE = 1_000
LONG_WAIT_MS = 15 * 60_000


class StoreFacts(NamedTuple):
    """What was read from a store that can be used."""

    workers: Sequence[RegisteredWorker]
    queues: Sequence[QueueStatus]
    waiting_kinds: frozenset[str]


async def read_inside(store: Store) -> StoreFacts:
    """Read what an open store knows of workers and queues."""
    waiting = await store.jobs.list_jobs(
        JobFilter(DEFAULT_TENANT, state=State.QUEUED, limit=SAMPLE)
    )
    return StoreFacts(
        await store.workers.list_workers(),
        await store.queues.list_queues(),
        frozenset(job.kind for job in waiting),
    )


def check_inside(inside: StoreFacts) -> Iterator[Finding]:
    """Judge workers and queues."""
    alive = [seen.info for seen in inside.workers if not seen.known_dead]
    dead = len(inside.workers) - len(alive)
    for info in alive:
        since = short(max(0, now() - info.started_at))
        kinds = ", ".join(info.kinds) or "no kinds"
        place = f"process {info.pid} on {info.host}"
        yield ok("workers", f"{place} for {since}, {info.slots} slots: {kinds}")
    if dead:
        said = f"{dead} worker(s) ended without a goodbye"
        yield warning("workers", said, "nothing to do: the next sweep gives their jobs to others")
    if not alive:
        advice = "start one: coatcheck serve MODULE:APP, or coatcheck worker MODULE:APP"
        yield warning("workers", "no worker is running: jobs wait", advice)
    for queue in inside.queues:
        yield _judge(queue)
    if not inside.queues:
        yield ok("queues", "no jobs wait or run")
    known = {kind for info in alive for kind in info.kinds}
    for kind in sorted(inside.waiting_kinds - known):
        said = f"jobs of kind {kind!r} wait, and no running worker has that kind"
        yield warning("queues", said, "start a worker of the app that declares it")


def _judge(queue: QueueStatus) -> Finding:
    counts = f"{queue.ready} ready, {queue.running} running, {queue.delayed} delayed"
    said = f"queue {queue.name!r}: {counts}"
    if queue.concurrency is not None:
        said += f" (at most {queue.concurrency} at once)"
    if queue.oldest_ready is None:
        waited = 0
    else:
        waited = max(0, now() - queue.oldest_ready)
        said += f", the oldest for {short(waited)}"
    if queue.paused:
        return warning("queues", f"{said}; paused", f"coatcheck queues resume {queue.name}")
    if waited > LONG_WAIT_MS:
        advice = "more workers or slots (COATCHECK_CONCURRENCY); coatcheck jobs explain ID says why"
        return warning("queues", said, advice)
    return ok("queues", said)
