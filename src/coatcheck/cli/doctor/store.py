"""Checks of the store, its workers and its queues. Nothing is created or migrated."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import apsw

from coatcheck.cli.doctor.findings import Finding, ok, problem, warning
from coatcheck.cli.output.time_format import now, short
from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import CoatcheckError, ConfigurationError, StoreUnavailable
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter, QueueStatus, RegisteredWorker, Store
from coatcheck.store.open import store_for
from coatcheck.store.shared.migrations import Migration, pending
from coatcheck.store.sqlite.database.connection import connect, translate
from coatcheck.store.sqlite.database.schema import MIGRATIONS, applied_number

AREA = "store"
_ADVICE = "correct COATCHECK_DATABASE (--database)"
# Enough queued jobs to see which kinds are waiting.
SAMPLE = 1_000
LONG_WAIT_MS = 15 * 60_000


class StoreView(NamedTuple):
    """The findings about a store."""

    findings: Sequence[Finding]
    scheme: str = ""
    sqlite_path: Path | None = None
    facts: StoreFacts | None = None
    database_ahead_ms: float | None = None


async def inspect_store(settings: Settings) -> StoreView:
    """Inspect the configured store."""
    try:
        store_for(settings)  # validates the address
        url = resolve(settings.database)
    except CoatcheckError as error:
        return StoreView([problem(AREA, str(error), _ADVICE)])
    scheme = url.partition("://")[0]
    if scheme == "sqlite":
        return await _sqlite(settings, _path_in(url))
    return await _postgres(settings, url)


def _path_in(url: str) -> Path:
    return Path(url.partition("://")[2][1:]).absolute()


async def _sqlite(settings: Settings, path: Path) -> StoreView:
    view = StoreView([], "sqlite", path)
    if (finding := _check_absent(path)) is not None:
        return view._replace(findings=[finding])
    try:
        missing = _pending_migrations(path)
    except apsw.NotADBError:
        message = f"{path} is not a SQLite database, or it is damaged"
        return view._replace(findings=[problem(AREA, message, f"{_ADVICE}, or restore a backup")])
    except apsw.Error as error:
        return view._replace(findings=[_error_finding(translate(error))])
    except CoatcheckError as error:
        return view._replace(findings=[_error_finding(error)])
    if missing:
        return view._replace(findings=[ok(AREA, f"{path} is readable"), _pending(missing)])
    return await _open(settings, view, str(path), len(MIGRATIONS))


def _check_absent(path: Path) -> Finding | None:
    if path.exists():
        return None
    folder = next(folder for folder in path.parents if folder.exists())
    if not os.access(folder, os.W_OK):
        message = f"{path} does not exist, and {folder} is not writable"
        return problem(AREA, message, f"{_ADVICE}, or the permissions of that folder")
    message = f"{path} does not exist yet"
    return warning(
        AREA, message, "coatcheck serve or coatcheck migrate creates it; check --database"
    )


def _pending_migrations(path: Path) -> list[Migration]:
    connection = connect(path, read_only=True)
    try:
        connection.execute("SELECT count(*) FROM sqlite_schema").get  # noqa: B018 - reads the file
        return pending(MIGRATIONS, applied_number(connection))
    finally:
        connection.close()


async def _postgres(settings: Settings, dsn: str) -> StoreView:
    # The driver is optional; it is installed, because `store_for` succeeded.
    from coatcheck.cli.doctor.postgres import inspect_postgres  # noqa: PLC0415

    view = StoreView([], "postgresql")
    try:
        found = await inspect_postgres(dsn, settings.schema)
    except CoatcheckError as error:
        return view._replace(findings=[_error_finding(error)])
    view = view._replace(database_ahead_ms=found.ahead_ms)
    name = f"PostgreSQL {found.version}, schema {settings.schema!r}"
    if found.missing:
        return view._replace(findings=[ok(AREA, f"{name} is reachable"), _pending(found.missing)])
    return await _open(settings, view, name, found.known)


async def _open(settings: Settings, view: StoreView, name: str, migrations: int) -> StoreView:
    """Open a store without pending migrations, write to it, and read its workers and queues."""
    store = store_for(settings)
    began = time.monotonic()
    try:
        await store.open()
        try:
            await store.ping()
            facts = await read_facts(store)
        finally:
            await store.close()
    except CoatcheckError as error:
        return view._replace(findings=[_error_finding(error)])
    except OSError as error:
        message = f"{name} cannot be opened: {error.strerror or type(error).__name__}"
        advice = "run the doctor as the server's user, and check the permissions of its folder"
        return view._replace(findings=[problem(AREA, message, advice)])
    took = (time.monotonic() - began) * 1000
    findings = [
        ok(AREA, f"{name} accepts writes (opened, written and read in {took:.0f} ms)"),
        ok("migrations", f"all {migrations} are applied"),
    ]
    return view._replace(findings=findings, facts=facts)


def _pending(missing: Sequence[Migration]) -> Finding:
    names = ", ".join(f"{migration.number:03d} {migration.name}" for migration in missing)
    return problem(
        "migrations",
        f"not applied yet: {names}",
        "run `coatcheck migrate`, or start the server of this release",
    )


def _error_finding(error: Exception) -> Finding:
    if isinstance(error, StoreUnavailable):
        return problem(
            AREA,
            str(error),
            "check that the database is running and writable, and that the disk is not full",
        )
    if isinstance(error, ConfigurationError):
        return problem(AREA, str(error), _ADVICE)
    return problem(AREA, str(error), "the database belongs to another release, or is damaged")


class StoreFacts(NamedTuple):
    """Workers, queues and waiting kinds of a usable store."""

    workers: Sequence[RegisteredWorker]
    queues: Sequence[QueueStatus]
    waiting_kinds: frozenset[str]


async def read_facts(store: Store) -> StoreFacts:
    """Read the workers and queues of an open store."""
    waiting = await store.jobs.list_jobs(
        JobFilter(DEFAULT_TENANT, state=State.QUEUED, limit=SAMPLE)
    )
    return StoreFacts(
        await store.workers.list_workers(),
        await store.queues.list_queues(),
        frozenset(job.kind for job in waiting),
    )


def check_facts(facts: StoreFacts) -> Iterator[Finding]:
    """Check workers and queues."""
    alive = [seen.info for seen in facts.workers if not seen.known_dead]
    dead = len(facts.workers) - len(alive)
    for info in alive:
        since = short(max(0, now() - info.started_at))
        kinds = ", ".join(info.kinds) or "no kinds"
        worker = f"process {info.pid} on {info.host}"
        yield ok("workers", f"{worker} for {since}, {info.slots} slots: {kinds}")
    if dead:
        message = f"{dead} worker(s) died"
        yield warning("workers", message, "no action needed: the next sweep requeues their jobs")
    if not alive:
        advice = "start one: coatcheck serve MODULE:APP, or coatcheck worker MODULE:APP"
        yield warning("workers", "no worker is running: no job starts", advice)
    for queue in facts.queues:
        yield _check_queue(queue)
    if not facts.queues:
        yield ok("queues", "no job is queued or running")
    known = {kind for info in alive for kind in info.kinds}
    for kind in sorted(facts.waiting_kinds - known):
        message = f"jobs of kind {kind!r} are queued, but no running worker has that kind"
        yield warning("queues", message, "start a worker for the app that declares it")


def _check_queue(queue: QueueStatus) -> Finding:
    counts = f"{queue.ready} ready, {queue.running} running, {queue.delayed} delayed"
    message = f"queue {queue.name!r}: {counts}"
    if queue.concurrency is not None:
        message += f" (at most {queue.concurrency} at once)"
    if queue.oldest_ready is None:
        waited = 0
    else:
        waited = max(0, now() - queue.oldest_ready)
        message += f", the oldest for {short(waited)}"
    if queue.paused:
        return warning("queues", f"{message}; paused", f"coatcheck queues resume {queue.name}")
    if waited > LONG_WAIT_MS:
        advice = "add workers or slots (COATCHECK_CONCURRENCY); see coatcheck jobs explain ID"
        return warning("queues", message, advice)
    return ok("queues", message)
