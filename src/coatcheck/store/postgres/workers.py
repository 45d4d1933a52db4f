"""The workers part of the PostgreSQL store."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.model import transition as rules
from coatcheck.model.job import Lease, Terms
from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import Topic
from coatcheck.store.postgres.claims import fast_claim
from coatcheck.store.postgres.claims.claimer import PostgresClaimer
from coatcheck.store.postgres.database.coalesce import Coalescer
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import fast_checkpoint
from coatcheck.store.postgres.operations import jobs as job_operations
from coatcheck.store.postgres.operations.after_commit import AfterCommit, WorkNotifier
from coatcheck.store.postgres.operations.jobs import SettleEffects
from coatcheck.store.shared.rows import read_worker
from coatcheck.store.workers import (
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    HeldJob,
    LimitUsage,
    RegisteredWorker,
    Report,
    Settlement,
)


class PostgresWorkers:
    """The verbs of workers."""

    def __init__(
        self,
        database: Database,
        sql: Statements,
        notifications: Notifications,
        claimer: PostgresClaimer,
        work: WorkNotifier,
        after_commit: AfterCommit,
    ) -> None:
        self._database = database
        self._sql = sql
        self._notifications = notifications
        self._claimer = claimer
        self._work = work
        self._after_commit = after_commit
        self._reports: Coalescer[tuple[Lease, Report, int], bool]

    def open(self) -> None:
        """Start to coalesce reports, on the running loop."""
        self._reports = Coalescer(self._report_all)

    async def drain(self) -> None:
        """Wait for the reports in progress."""
        await self._reports.drain()

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Register a worker."""
        kinds = json.dumps(worker.kinds)
        values = (worker.id, worker.host, worker.pid, kinds, worker.slots)
        await self._database.execute(
            self._sql.insert_worker, *values, worker.started_at, worker.beats
        )

    async def heartbeat(self, worker_id: str) -> bool:
        """Increment a worker's heartbeat count."""
        return await self._database.execute(self._sql.beat, worker_id) == "UPDATE 1"

    async def list_workers(self) -> list[RegisteredWorker]:
        """List the registered workers. None is known to be dead: it may run on another machine."""
        rows = await self._database.fetch(self._sql.all_workers)
        return [RegisteredWorker(read_worker(row), known_dead=False) for row in rows]

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and treat the jobs that it holds as lost."""

        async def remove(db: Any) -> tuple[int, SettleEffects] | None:
            # Wait for a claim of this worker that is in progress, to see its jobs.
            row = await db.fetchrow(self._sql.lock_worker, worker_id)
            if row is None or (beats is not None and row[0] != beats):
                return None
            held = [(row[0], row[1]) for row in await db.fetch(self._sql.held_by, worker_id)]
            await db.execute(self._sql.delete_worker, worker_id)
            return await job_operations.move(db, self._sql, held, lost, now)

        def lost(status: JobStatus, terms: Terms, now: int) -> Transition | None:
            # The worker may have settled a job since, and another worker may have claimed it.
            return rules.lost(status, terms, now) if status.worker == worker_id else None

        removed = await self._database.run(remove)
        self._claimer.lanes.forget()
        if removed is not None:
            await self._after_commit.follow(removed[1], now)
        # Even if nothing was removed: an earlier try may have committed without a notification.
        self._notifications.publish({Topic.WORK, Topic.CHANGES})
        return None if removed is None else removed[0]

    async def claim(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit] = NO_LIMITS,
        versions: Mapping[str, str] = NO_VERSIONS,
        held: HeldSlots | None = None,
    ) -> ClaimResult:
        """Claim due jobs."""
        claimed, topics = await self._claimer.take(
            worker_id, kinds, limit, now, limits, versions, held
        )
        view = self._claimer.lanes.known(kinds)
        if view is not None and view.old_at is not None and len(claimed.claims) < limit:
            self._notifications.wake_at(Topic.WORK, view.old_at)
        self._notifications.publish(topics)
        return claimed

    async def get_limit_usage(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count the running jobs that a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        if limit is not None and limit.by_key:
            sql = self._sql.running_of_keys
            running = (await self._database.fetchrow(sql, [kind], [tenant], [key], [most]))[3]
        else:
            sql = self._sql.how_limits_stand
            running = (await self._database.fetchrow(sql, [kind], [most], [], [], []))[2]
        rate = await self._database.fetchrow(self._sql.rate, kind)
        return LimitUsage(running, 0 if rate is None else rate[0])

    async def list_held_jobs(self, worker_id: str) -> list[HeldJob]:
        """List the jobs that a worker holds."""
        rows = await self._database.fetch(self._sql.held_by, worker_id)
        return [HeldJob(Lease(row[0], row[1], row[2]), row[3]) for row in rows]

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write a report of a running job."""
        return await self._reports((lease, report, now))

    async def _report_all(self, batch: Sequence[tuple[Lease, Report, int]]) -> list[bool]:
        now = max(now for _, _, now in batch)
        reports = [(lease, report) for lease, report, _ in batch]
        recorded = await self._record_checkpoints(reports, now)
        if recorded is not None:
            answers, added, deliveries = [True] * len(batch), recorded, False
        else:
            answers, added, deliveries = await self._database.run(
                lambda db: job_operations.report(db, self._sql, reports, now)
            )
        for lease, entries in added.items():
            self._claimer.handed.said(lease, entries)
        self._notifications.publish({Topic.REPORTS, *((Topic.WEBHOOKS,) if deliveries else ())})
        self._work.jobs_submitted([child for _, report in reports for child in report.children])
        return answers

    async def _record_checkpoints(
        self, reports: fast_checkpoint.Said, now: int
    ) -> dict[Lease, int] | None:
        """Write reports that consist of steps only by the fast path. None: it does not apply."""
        handed, sql, record = self._claimer.handed, self._sql, fast_checkpoint.record_one_as_claimed
        laid_out = fast_checkpoint.lay_out_step(handed, reports)
        if laid_out is None:
            record = fast_checkpoint.record_as_claimed
            laid_out = fast_checkpoint.lay_out_steps(handed, reports)
            if laid_out is None:
                return None
        return await self._database.run(
            lambda db: record(db, sql, laid_out, reports, now), transaction=False
        )

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """Settle attempts."""
        written = await self._database.run(
            lambda db: fast_claim.settle_as_claimed(
                db, self._sql, self._claimer.handed, self._claimer.lanes, settlements, now
            ),
            transaction=False,
        )
        effects = SettleEffects()
        if written is None:
            answers, topics, effects = await self._database.run(
                lambda db: job_operations.settle(db, self._sql, settlements, now)
            )
            self._claimer.lanes.forget()
            reports = (item.report for item in settlements if item.report is not None)
            self._work.jobs_submitted([child for report in reports for child in report.children])
        else:
            answers, topics = [True] * len(settlements), written
            effects.ended = self._claimer.handed.parents_wait_for(settlements)
        self._claimer.handed.forget(settlements)
        await self._after_commit.follow(effects, now)
        self._notifications.publish(topics)
        return answers
