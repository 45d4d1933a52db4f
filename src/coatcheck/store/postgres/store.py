"""PostgresStore: the Store protocol on PostgreSQL, for any number of machines.

Its semantics are the SQLite store's to the letter; both pass the same conformance suite and are
compared step by step in random histories. What differs is how: concurrent calls become one
statement (coalesce.py), claims pass over locked rows, wake-ups travel by NOTIFY (notify.py), and
nobody can tell for certain that a process is dead, so `known_dead` is always False.

Here are the verbs on jobs; the other parts stand in modules named as those of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coatcheck.errors import Gone, InputGone, InvalidInput, NotFound
from coatcheck.ids import UlidGenerator, is_ulid
from coatcheck.model import transition as rules
from coatcheck.model.event import JobEvent
from coatcheck.model.job import Job, JobInsert, Lease, Terms
from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.model.step import MOST_MESSAGES, SentEvent, Step
from coatcheck.model.transition import JobStatus, Transition
from coatcheck.store.base import (
    BATCH_LIMIT,
    NO_COPIES,
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
    LimitUsage,
    Report,
    Settlement,
    Signal,
    SweepResult,
    Topic,
)
from coatcheck.store.migrations import Migration
from coatcheck.store.postgres import commands, fast_checkpoint, fast_claim, jobs, retention
from coatcheck.store.postgres.access import PostgresAccess, the_one_epoch
from coatcheck.store.postgres.after_commit import AfterCommit
from coatcheck.store.postgres.audit import PostgresAudit
from coatcheck.store.postgres.claimer import Claimer
from coatcheck.store.postgres.coalesce import Coalescer
from coatcheck.store.postgres.database import Database
from coatcheck.store.postgres.files import PostgresFiles
from coatcheck.store.postgres.idempotency import KeyedSubmission, submit_once
from coatcheck.store.postgres.list_query import list_query
from coatcheck.store.postgres.notify import Notifications
from coatcheck.store.postgres.queues import PostgresQueues
from coatcheck.store.postgres.records import PostgresRecords
from coatcheck.store.postgres.rekey import PostgresRekey
from coatcheck.store.postgres.schedules import PostgresSchedules
from coatcheck.store.postgres.schema import check_schema, migrate
from coatcheck.store.postgres.statements import Statements
from coatcheck.store.postgres.webhooks import PostgresWebhooks
from coatcheck.store.postgres.workers import PostgresWorkers
from coatcheck.store.rows import read_event, read_job, read_step


class PostgresStore(
    PostgresWorkers,
    PostgresFiles,
    PostgresQueues,
    PostgresRecords,
    PostgresSchedules,
    PostgresWebhooks,
    PostgresAccess,
    PostgresAudit,
    PostgresRekey,
):
    """Jobs in a PostgreSQL schema, shared by any number of processes anywhere."""

    def __init__(
        self,
        dsn: str,
        *,
        schema: str = "coatcheck",
        listen_dsn: str | None = None,
        connections: int = 10,
        poll_s: float = 1.0,
    ) -> None:
        self._dsn = dsn
        self._listen_dsn = listen_dsn
        self._poll_s = poll_s
        self._sql = Statements(schema)
        self._new_id = UlidGenerator()
        self._database = Database(dsn, connections=connections)
        self._submits: Coalescer[tuple[JobInsert, int, int | None], None]
        self._keyed: Coalescer[KeyedSubmission, ExistingSubmission | None]
        self._reports: Coalescer[tuple[Lease, Report, int], bool]
        self._claims = Claimer(self._database, self._sql)
        self._swept_to = 0
        self._notifications: Notifications
        self._following: AfterCommit

    # --- opening and closing

    async def open(self) -> None:
        """Migrate if there is anything to (which this role may lack the right to), and connect."""
        self._submits = Coalescer(self._submit_all)
        self._keyed = Coalescer(self._submit_once)
        self._reports = Coalescer(self._report_all)
        await self.migrate()
        await self._database.open()
        await check_schema(self._database, self._sql)
        listen_dsn = self._listen_dsn
        if listen_dsn is None and not self._database.pooled:
            listen_dsn = self._dsn
        self._notifications = Notifications(
            self._database, self._sql, listen_dsn, self._new_id(), self._poll_s
        )
        self._following = AfterCommit(self._database, self._sql, self._notifications, self._woke)

    async def migrate(self) -> list[Migration]:
        """Apply the missing migrations under a lock; needs no open store."""
        return await migrate(self._dsn, self._sql)

    async def close(self) -> None:
        """Finish the writes under way and close the connections."""
        await self._submits.drain()
        await self._keyed.drain()
        await self._reports.drain()
        await self._notifications.close()
        await self._database.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless the server takes a write: it writes one."""
        await self.count({"pings": 1})

    # --- handing work in and reading it

    async def submit(
        self, job: JobInsert, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> ExistingSubmission | None:
        """Make a job durable."""
        if once is None:
            await self._submits((job, now, epoch))
            return None
        return await self._keyed(KeyedSubmission((job,), now, once, epoch))

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Make a job durable that has ended."""
        topics, after = await self._database.run(
            lambda db: jobs.submit_finished(db, self._sql, job, ended, now, epoch)
        )
        if ended.report is not None:
            self._taken_in(ended.report.children)
        await self._following.follow(after, now)
        self._notifications.publish(topics)

    async def earlier(self, tenant: str, key: str, now: int) -> ExistingSubmission | None:
        """Read what was submitted under a key."""
        row = await self._database.fetchrow(self._sql.earlier, tenant, key, now)
        return None if row is None else ExistingSubmission(*row)

    async def _submit_all(self, batch: Sequence[tuple[JobInsert, int, int | None]]) -> list[None]:
        # One time for the whole batch: that of the last caller. It decides what is due.
        now = max(now for _, now, _ in batch)
        new = [job for job, _, _ in batch]
        await self._insert(new, now, the_one_epoch(epoch for _, _, epoch in batch))
        self._taken_in(new)
        return [None] * len(batch)

    async def _insert(self, new: Sequence[JobInsert], now: int, epoch: int | None = None) -> None:
        # One statement needs no transaction around it.
        apart = any(map(jobs.brings_more, new))
        await self._database.run(
            lambda db: jobs.submit(db, self._sql, new, now, in_transaction=apart, epoch=epoch),
            transaction=apart,
        )

    async def _submit_once(
        self, batch: Sequence[KeyedSubmission]
    ) -> list[ExistingSubmission | None]:
        now = max(item.now for item in batch)
        answers = await self._database.run(lambda db: submit_once(db, self._sql, batch, now))
        self._taken_in([job for item in batch for job in item.new])
        return answers

    async def submit_batch(
        self, new: Sequence[JobInsert], now: int, once: Idempotency | None = None
    ) -> ExistingSubmission | None:
        """Make many jobs durable in one statement: here it holds up nobody."""
        if len(new) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(new):,}")
        if once is not None and new:
            return (await self._submit_once([KeyedSubmission(new, now, once)]))[0]
        await self._insert(new, now)
        self._taken_in(new)
        return None

    def _taken_in(self, new: Sequence[JobInsert]) -> None:
        if not new:
            return
        self._claims.lanes.opened(((job.kind, job.queue, job.priority), job.id) for job in new)
        self._notifications.publish({Topic.WORK})

    def _may_be_claimable(self) -> None:
        self._claims.lanes.forget()
        self._notifications.publish({Topic.WORK})

    def _woke(self) -> None:
        self._claims.lanes.forget()
        self._notifications.publish({Topic.WORK, Topic.CHANGES, Topic.WEBHOOKS})

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        if "\0" in job_id:
            raise NotFound("there is no such job")  # PostgreSQL has no text with a NUL in it
        sql = self._sql.job_by_id if is_ulid(job_id) else self._sql.job_by_public_id
        row = await self._database.fetchrow(sql, tenant, job_id)
        if row is not None:
            return read_job(row)
        if await self._database.fetchrow(self._sql.tombstone, tenant, job_id) is not None:
            raise Gone(f"job {job_id} is gone: it was deleted, or its retention has passed")
        raise NotFound(f"there is no job {job_id}")

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read those of many jobs that exist."""
        rows = await self._database.fetch(self._sql.jobs_by_ids, *jobs.columns(ids, 2))
        return [read_job(row) for row in rows]

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(self._sql, which)
        if not which.labels:
            return [read_job(row) for row in await self._database.fetch(sql, *values)]

        async def read(db: Any) -> list[Any]:
            await db.execute(self._sql.plan_for_values)
            return list(await db.fetch(sql, *values))

        return [read_job(row) for row in await self._database.run(read)]

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[JobEvent]:
        """Read a job's log."""
        rows = await self._database.fetch(self._sql.events_after, tenant, job_id, after, limit)
        return [read_event(row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled."""
        job = await self.get(tenant, job_id)
        _, after = await self._database.run(
            lambda db: jobs.move(db, self._sql, [(tenant, job.id)], rules.cancel_asked, now)
        )
        await self._following.follow(after, now)
        # Also when nothing moved: an earlier try may have done it, and told nobody.
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES})
        return await self.get(tenant, job.id)

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps."""
        return [
            read_step(row) for row in await self._database.fetch(self._sql.steps_of, tenant, job_id)
        ]

    async def messages(self, tenant: str, job_id: str) -> list[SentEvent]:
        """Read what was sent to a job."""
        return [
            SentEvent(*row)
            for row in await self._database.fetch(self._sql.messages_of, tenant, job_id)
        ]

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._database.fetchrow(self._sql.input_of, tenant, job.id)
        if row is None or row[0] == "":
            raise InputGone(f"the input of job {job_id} is gone")
        return str(row[0])

    async def send(
        self,
        tenant: str,
        job_id: str,
        name: str,
        data: str,
        now: int,
        key: str | None = None,
        most: int = MOST_MESSAGES,
    ) -> Job:
        """Send an event to a job."""
        job = (tenant, (await self.get(tenant, job_id)).id)
        await self._database.run(
            lambda db: commands.send(db, self._sql, job, name, data, now, key, most),
            repeatable=key is not None,
        )
        self._woke()
        return await self.get(*job)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again that failed or was cancelled."""
        job = (tenant, (await self.get(tenant, job_id)).id)
        row = await self._database.run(lambda db: commands.resume(db, self._sql, job, now))
        self._woke()
        return await self.get(*job) if row is None else read_job(row)

    async def fork(
        self,
        source: str,
        before: int,
        job: JobInsert,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Make a job durable that begins with steps of another."""
        await self._database.run(
            lambda db: commands.fork(db, self._sql, source, before, job, now, copies)
        )
        self._taken_in([job])

    async def delete(self, tenant: str, job_id: str, now: int) -> DeletedJob:
        """Remove a job that has ended."""
        job = await self.get(tenant, job_id)
        deleted = await self._database.run(lambda db: commands.delete(db, self._sql, job, now))
        self._notifications.publish({Topic.CHANGES})
        return deleted

    # --- working

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and take back what it holds."""

        async def remove(db: Any) -> tuple[int, jobs.SettleEffects] | None:
            # Waits for a claim of this worker that is under way, and then sees what it took.
            row = await db.fetchrow(self._sql.lock_worker, worker_id)
            if row is None or (beats is not None and row[0] != beats):
                return None
            held = [(row[0], row[1]) for row in await db.fetch(self._sql.held_by, worker_id)]
            await db.execute(self._sql.delete_worker, worker_id)
            return await jobs.move(db, self._sql, held, lost, now)

        def lost(standing: JobStatus, terms: Terms, now: int) -> Transition | None:
            # It may have settled a job since, and another worker have claimed it.
            return rules.lost(standing, terms, now) if standing.worker == worker_id else None

        removed = await self._database.run(remove)
        self._claims.lanes.forget()
        if removed is not None:
            await self._following.follow(removed[1], now)
        # Also when nothing was removed: an earlier try may have done it, and told nobody.
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
        """Take jobs that are due."""
        claimed, topics = await self._claims.take(
            worker_id, kinds, limit, now, limits, versions, held
        )
        view = self._claims.lanes.known(kinds)
        if view is not None and view.old_at is not None and len(claimed.claims) < limit:
            self._notifications.wake_at(Topic.WORK, view.old_at)
        self._notifications.publish(topics)
        return claimed

    async def stands(
        self, kind: str, limit: Limit | None, tenant: str, key: str | None
    ) -> LimitUsage:
        """Count what a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        if limit is not None and limit.by_key:
            sql = self._sql.running_of_keys
            running = (await self._database.fetchrow(sql, [kind], [tenant], [key], [most]))[3]
        else:
            sql = self._sql.how_limits_stand
            running = (await self._database.fetchrow(sql, [kind], [most], [], [], []))[2]
        rate = await self._database.fetchrow(self._sql.rate, kind)
        return LimitUsage(running, 0 if rate is None else rate[0])

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself."""
        return await self._reports((lease, report, now))

    async def _report_all(self, batch: Sequence[tuple[Lease, Report, int]]) -> list[bool]:
        now = max(now for _, _, now in batch)
        reports = [(lease, report) for lease, report, _ in batch]
        recorded = await self._record(reports, now)
        if recorded is not None:
            answers, added, tells = [True] * len(batch), recorded, False
        else:
            answers, added, tells = await self._database.run(
                lambda db: jobs.report(db, self._sql, reports, now)
            )
        for lease, entries in added.items():
            self._claims.handed.said(lease, entries)
        self._notifications.publish({Topic.REPORTS, *((Topic.WEBHOOKS,) if tells else ())})
        self._taken_in([child for _, said in reports for child in said.children])
        return answers

    async def _record(self, said: fast_checkpoint.Said, now: int) -> dict[Lease, int] | None:
        handed, sql, record = self._claims.handed, self._sql, fast_checkpoint.record_one_as_claimed
        laid_out = fast_checkpoint.lay_out_step(handed, said)
        if laid_out is None:
            record = fast_checkpoint.record_as_claimed
            laid_out = fast_checkpoint.lay_out_steps(handed, said)
            if laid_out is None:
                return None
        return await self._database.run(
            lambda db: record(db, sql, laid_out, said, now), transaction=False
        )

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        written = await self._database.run(
            lambda db: fast_claim.settle_as_claimed(
                db, self._sql, self._claims.handed, self._claims.lanes, settlements, now
            ),
            transaction=False,
        )
        after = jobs.SettleEffects()
        if written is None:
            answers, topics, after = await self._database.run(
                lambda db: jobs.settle(db, self._sql, settlements, now)
            )
            self._claims.lanes.forget()
            reports = (item.report for item in settlements if item.report is not None)
            self._taken_in([child for report in reports for child in report.children])
        else:
            answers, topics = [True] * len(settlements), written
            after.ended = self._claims.handed.parents_wait_for(settlements)
        self._claims.handed.forget(settlements)
        await self._following.follow(after, now)
        self._notifications.publish(topics)
        return answers

    # --- keeping house

    async def sweep(self, now: int) -> SweepResult:
        """Do what is due, a bounded amount."""
        most = retention.AT_ONCE
        expired = await self._end(
            await self._database.fetch(self._sql.past_deadline, now, most), rules.expired, now
        )
        long_ago = now - rules.OVERRUN_MS
        overran = await self._end(
            await self._database.fetch(self._sql.running_past_deadline, long_ago, most),
            rules.overran,
            now,
        )
        missed = await self._database.fetch(self._sql.missed_wakes, most)
        if missed:
            await self._following.look_again([(row[0], row[1]) for row in missed], now)
        cascading = [
            await self._following.cascade((row[0], row[1]), now)
            for row in await self._database.fetch(self._sql.cascades, most // 10)
        ]
        dropped = await self._database.execute(self._sql.drop_old_inputs, now, most)
        deleted, self._swept_to = await self._database.run(
            lambda db: retention.delete_old(db, self._sql, self._swept_to, now)
        )
        done = (expired, overran, int(dropped.rpartition(" ")[2]), deleted, len(missed))
        more = most in done or any(cascading)
        return SweepResult(expired=expired + overran, deleted=deleted, more=more)

    async def _end(self, overdue: Sequence[Sequence[Any]], rule: jobs.Rule, now: int) -> int:
        if not overdue:
            return 0
        keys = [(row[0], row[1]) for row in overdue]
        ended, after = await self._database.run(
            lambda db: jobs.move(db, self._sql, keys, rule, now)
        )
        self._claims.lanes.forget()
        await self._following.follow(after, now)
        # Where one of them ran, there may be room for another.
        self._notifications.publish({Topic.WORK, Topic.CHANGES})
        return ended

    async def erase(self) -> bool:
        """Do nothing: what is deleted is not visible any more, and vacuum reuses its place."""
        return True

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to the counters."""
        await self._database.execute(self._sql.count_up, list(deltas), list(deltas.values()))

    async def counters(self) -> dict[str, int]:
        """Read the counters."""
        return {row[0]: row[1] for row in await self._database.fetch(self._sql.all_counters)}

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken by what any process does to this schema."""
        return self._notifications.subscribe(topic)
