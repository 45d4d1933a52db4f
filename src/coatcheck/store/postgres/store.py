"""PostgresStore: the Store protocol on PostgreSQL, for any number of machines.

Its semantics are the SQLite store's to the letter; both pass the same conformance suite and are
compared step by step in random histories. What differs is how: concurrent calls become one
statement (coalesce.py), claims pass over locked rows, wake-ups travel by NOTIFY (notify.py), and
nobody can tell for certain that a process is dead, so `known_dead` is always False.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import Any

from coatcheck.errors import (
    Conflict,
    Gone,
    InputGone,
    InvalidInput,
    KeyReused,
    NotFound,
    StoreUnavailable,
)
from coatcheck.ids import UlidGenerator, is_ulid, ulid_time
from coatcheck.model import transition as rules
from coatcheck.model.artifact import Artifact
from coatcheck.model.event import Event
from coatcheck.model.job import Job, Lease, NewJob
from coatcheck.model.limit import Limit
from coatcheck.model.payload import NOBODY, BlobName, blobs_in, is_same
from coatcheck.model.record import Record
from coatcheck.model.state import State
from coatcheck.model.step import MOST_MESSAGES, Message, Step
from coatcheck.model.upload import StoredUpload
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import (
    BATCH_LIMIT,
    NO_COPIES,
    NO_LIMITS,
    NO_VERSIONS,
    Claimed,
    Deleted,
    Earlier,
    Held,
    Idempotency,
    JobFilter,
    QueueStatus,
    Report,
    SeenWorker,
    Settlement,
    Signal,
    Stands,
    Swept,
    Topic,
)
from coatcheck.store.migrations import Migration
from coatcheck.store.postgres import blobs, claiming, jobs, recording, waiting, webhooks
from coatcheck.store.postgres.access import PostgresAccess, the_one_epoch
from coatcheck.store.postgres.coalesce import Coalescer
from coatcheck.store.postgres.database import Database
from coatcheck.store.postgres.in_turn import InTurn
from coatcheck.store.postgres.keys import Keyed, submit_once
from coatcheck.store.postgres.lanes import Lanes
from coatcheck.store.postgres.listing import list_query
from coatcheck.store.postgres.notify import Notifications
from coatcheck.store.postgres.resealing import PostgresResealing
from coatcheck.store.postgres.schedules import PostgresSchedules
from coatcheck.store.postgres.schema import check_schema, migrate
from coatcheck.store.postgres.statements import Statements
from coatcheck.store.postgres.webhooks import PostgresWebhooks
from coatcheck.store.rows import read_event, read_job, read_step
from coatcheck.store.turns import kind_in_lanes, priority_in_lanes

log = logging.getLogger(__name__)

SWEEP_AT_ONCE = 200
USAGE_AT_ONCE = 20_000
TOMBSTONES_KEPT_MS = 7 * 86_400_000


class PostgresStore(PostgresSchedules, PostgresWebhooks, PostgresAccess, PostgresResealing):
    """Jobs in a PostgreSQL schema, shared by any number of processes anywhere."""

    any_loop = False  # a connection belongs to its loop

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
        self._submits: Coalescer[tuple[NewJob, int, int | None], None] = Coalescer(self._submit_all)
        self._keyed: Coalescer[Keyed, Earlier | None] = Coalescer(self._submit_once)
        self._reports: Coalescer[tuple[Lease, Report, int], bool] = Coalescer(self._report_all)
        self._handed = claiming.Handed()
        self._lanes = Lanes()
        self._in_turn = InTurn()
        self._counted: set[str] = set()  # kinds of which all that runs counts for their limits
        self._swept_to = 0
        self._notifications: Notifications

    # --- opening and closing

    async def open(self) -> None:
        """Migrate if there is anything to (which this role may lack the right to), and connect."""
        await self.migrate()
        await self._database.open()
        await check_schema(self._database, self._sql)
        listen_dsn = self._listen_dsn
        if listen_dsn is None and not self._database.pooled:
            listen_dsn = self._dsn
        self._notifications = Notifications(
            self._database, self._sql, listen_dsn, self._new_id(), self._poll_s
        )

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
        self, job: NewJob, now: int, once: Idempotency | None = None, epoch: int | None = None
    ) -> Earlier | None:
        """Make a job durable."""
        if once is None:
            await self._submits((job, now, epoch))
            return None
        return await self._keyed(Keyed((job,), now, once, epoch))

    async def earlier(self, tenant: str, key: str, now: int) -> Earlier | None:
        """Read what was submitted under a key."""
        row = await self._read_row(self._sql.earlier, tenant, key, now)
        return None if row is None else Earlier(*row)

    async def _submit_all(self, batch: Sequence[tuple[NewJob, int, int | None]]) -> list[None]:
        # One time for the whole batch: that of the last caller. It decides what is due.
        now = max(now for _, now, _ in batch)
        new = [job for job, _, _ in batch]
        await self._insert(new, now, the_one_epoch(epoch for _, _, epoch in batch))
        self._taken_in(new)
        return [None] * len(batch)

    async def _insert(self, new: Sequence[NewJob], now: int, epoch: int | None = None) -> None:
        # One statement needs no transaction around it.
        apart = any(map(jobs.brings_more, new))
        await self._database.run(
            lambda db: jobs.submit(db, self._sql, new, now, in_transaction=apart, epoch=epoch),
            transaction=apart,
        )

    async def _submit_once(self, batch: Sequence[Keyed]) -> list[Earlier | None]:
        now = max(item.now for item in batch)
        answers = await self._database.run(lambda db: submit_once(db, self._sql, batch, now))
        self._taken_in([job for item in batch for job in item.new])
        return answers

    async def submit_batch(
        self, new: Sequence[NewJob], now: int, once: Idempotency | None = None
    ) -> Earlier | None:
        """Make many jobs durable in one statement: here it holds up nobody."""
        if len(new) > BATCH_LIMIT:
            raise InvalidInput(f"a batch holds at most {BATCH_LIMIT:,} jobs, not {len(new):,}")
        if once is not None and new:
            return (await self._submit_once([Keyed(new, now, once)]))[0]
        await self._insert(new, now)
        self._taken_in(new)
        return None

    def _taken_in(self, new: Sequence[NewJob]) -> None:
        if not new:
            return
        self._lanes.opened(((job.kind, job.queue, job.priority), job.id) for job in new)
        self._notifications.publish({Topic.WORK})

    async def get(self, tenant: str, job_id: str) -> Job:
        """Read a job by its id or its public id."""
        if "\0" in job_id:
            raise NotFound("there is no such job")  # PostgreSQL has no text with a NUL in it
        sql = self._sql.job_by_id if is_ulid(job_id) else self._sql.job_by_public_id
        row = await self._read_row(sql, tenant, job_id)
        if row is not None:
            return read_job(row)
        if await self._read_row(self._sql.tombstone, tenant, job_id) is not None:
            raise Gone(f"job {job_id} is gone: it was deleted, or its retention has passed")
        raise NotFound(f"there is no job {job_id}")

    async def get_many(self, ids: Sequence[tuple[str, str]]) -> list[Job]:
        """Read those of many jobs that exist."""
        rows = await self._read(self._sql.jobs_by_ids, *jobs.columns(ids, 2))
        return [read_job(row) for row in rows]

    async def list_jobs(self, which: JobFilter) -> list[Job]:
        """List jobs, newest first."""
        sql, values = list_query(self._sql, which)
        if not which.labels:
            return [read_job(row) for row in await self._read(sql, *values)]

        async def read(db: Any) -> list[Any]:
            await db.execute(self._sql.plan_for_values)
            return list(await db.fetch(sql, *values))

        return [read_job(row) for row in await self._database.run(read)]

    async def events(self, tenant: str, job_id: str, after: int, limit: int) -> list[Event]:
        """Read a job's log."""
        rows = await self._read(self._sql.events_after, tenant, job_id, after, limit)
        return [read_event(row) for row in rows]

    async def cancel(self, tenant: str, job_id: str, now: int) -> Job:
        """Ask for a job to be cancelled."""
        job = await self.get(tenant, job_id)
        _, after = await self._database.run(
            lambda db: jobs.move(db, self._sql, [(tenant, job.id)], rules.cancel_asked, now)
        )
        await self._follow(after, now)
        # Also when nothing moved: an earlier try may have done it, and told nobody.
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES})
        return await self.get(tenant, job.id)

    async def steps(self, tenant: str, job_id: str) -> list[Step]:
        """Read a job's steps."""
        return [read_step(row) for row in await self._read(self._sql.steps_of, tenant, job_id)]

    async def messages(self, tenant: str, job_id: str) -> list[Message]:
        """Read what was sent to a job."""
        return [Message(*row) for row in await self._read(self._sql.messages_of, tenant, job_id)]

    async def input_of(self, tenant: str, job_id: str) -> str:
        """Read a job's input."""
        job = await self.get(tenant, job_id)
        row = await self._read_row(self._sql.input_of, tenant, job.id)
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

        async def send(db: Any) -> None:
            found = await jobs.lock(db, self._sql, [job])
            if job not in found:
                raise Gone(f"job {job_id} is gone: somebody has deleted it")
            sent = None
            if key is not None:
                sent = await db.fetchrow(self._sql.message_with_key, *job, key)
            if sent is not None:
                if sent["name"] != name or not is_same(sent["data"], data):
                    raise KeyReused("this idempotency key was used for another event")
                return
            state = found[job].standing.state
            if state.is_terminal:
                raise Conflict(f"job {job_id} is {state}: nobody will wait for an event any more")
            if await db.fetchval(self._sql.count_messages, *job) >= most:
                raise Conflict(f"job {job_id} has {most:,} events already, and takes no more")
            await db.execute(self._sql.insert_message, *job, name, data, now, key)
            await blobs.adopt(db, self._sql, blobs_in([(*job, data)]))
            await waiting.look_again(db, self._sql, [job], now)

        await self._database.run(send, repeatable=key is not None)
        self._lanes.forget()
        self._notifications.publish({Topic.WORK, Topic.CHANGES, Topic.WEBHOOKS})
        return await self.get(*job)

    async def resume(self, tenant: str, job_id: str, now: int) -> Job:
        """Queue a job again that failed or was cancelled."""
        key = (tenant, (await self.get(tenant, job_id)).id)

        async def resume(db: Any) -> Any:
            moved, _ = await jobs.move(db, self._sql, [key], rules.resumed, now)
            if moved:
                if await db.fetchval(self._sql.input_of, *key) == "":
                    raise InputGone(f"the input of job {job_id} is gone: it cannot go on")
                await db.execute(self._sql.drop_passed_deadline, *key, now)
                await db.execute(self._sql.delete_cascades, [key[0]], [key[1]])
            return await db.fetchrow(self._sql.job_by_id, *key)

        row = await self._database.run(resume)
        self._lanes.forget()
        self._notifications.publish({Topic.WORK, Topic.CHANGES, Topic.WEBHOOKS})
        return await self.get(*key) if row is None else read_job(row)

    async def fork(
        self,
        source: str,
        before: int,
        job: NewJob,
        now: int,
        copies: Mapping[str, str] = NO_COPIES,
    ) -> None:
        """Make a job durable that begins with steps of another."""
        key = (job.tenant, job.id)

        async def fork(db: Any) -> None:
            if key not in await jobs.lock(db, self._sql, [key]):
                await jobs.submit(db, self._sql, [job], now, in_transaction=True, fence=1)
                await db.execute(self._sql.copy_steps, job.id, job.tenant, source, before)
                await db.execute(self._sql.copy_taken_messages, job.id, job.tenant, source)
                await blobs.take_copies(db, self._sql, source, job, copies)

        await self._database.run(fork)
        self._taken_in([job])

    async def delete(self, tenant: str, job_id: str, now: int) -> Deleted:
        """Remove a job that has ended."""
        job = await self.get(tenant, job_id)

        async def remove(db: Any) -> Deleted:
            row = await db.fetchrow(self._sql.lock_for_removal, tenant, job.id)
            if row is None:
                raise Gone(f"job {job_id} is gone: somebody else has deleted it")
            state, payloads = row
            if not State(state).is_terminal:
                raise Conflict(f"job {job_id} is {state}: only a job that has ended is deleted")
            keys = [[tenant], [job.id]]
            artifacts, uploads, doomed = await blobs.remove(db, self._sql, keys)
            deliveries = await webhooks.remove(db, self._sql, keys)
            events, steps, sent = await self._remove(db, keys, [job.kind], now)
            files = (artifacts, uploads, doomed)
            return Deleted(job.id, payloads, events, steps, *files, sent, deliveries)

        deleted = await self._database.run(remove)
        self._notifications.publish({Topic.CHANGES})
        return deleted

    async def ahead_of(self, job: Job, kinds: Sequence[str], most: int) -> int:
        """Count the jobs before one in its queue."""
        priority = priority_in_lanes(job.priority)
        named = {kind_in_lanes(job.kind, job.version), *kinds}
        values = (list(named), job.queue, priority, job.tenant, job.id, most, job.priority)
        row = await self._read_row(self._sql.ahead_of, *values)
        return int(row[0])

    # --- working

    async def register_worker(self, worker: WorkerInfo) -> None:
        """Make a worker known."""
        kinds = json.dumps(worker.kinds)
        values = (worker.id, worker.host, worker.pid, kinds, worker.slots)
        await self._execute(self._sql.insert_worker, *values, worker.started_at, worker.beats)

    async def beat(self, worker_id: str) -> bool:
        """Raise a worker's heartbeat count."""
        return await self._execute(self._sql.beat, worker_id) == "UPDATE 1"

    async def workers(self) -> list[SeenWorker]:
        """List the registered workers."""
        found = []
        for row in await self._read(self._sql.all_workers):
            id_, host, pid, kinds, slots, started_at, beats = row
            info = WorkerInfo(id_, host, pid, tuple(json.loads(kinds)), slots, started_at, beats)
            found.append(SeenWorker(info, known_dead=False))
        return found

    async def remove_worker(self, worker_id: str, beats: int | None, now: int) -> int | None:
        """Remove a worker and take back what it holds."""

        async def remove(db: Any) -> tuple[int, jobs.After] | None:
            # Waits for a claim of this worker that is under way, and then sees what it took.
            row = await db.fetchrow(self._sql.lock_worker, worker_id)
            if row is None or (beats is not None and row[0] != beats):
                return None
            held = [(row[0], row[1]) for row in await db.fetch(self._sql.held_by, worker_id)]
            await db.execute(self._sql.delete_worker, worker_id)
            return await jobs.move(db, self._sql, held, rules.lost, now)

        removed = await self._database.run(remove)
        self._lanes.forget()
        if removed is not None:
            await self._follow(removed[1], now)
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
    ) -> Claimed:
        """Take jobs that are due: the first ones of all lanes, or where it is crowded in turn."""
        counted = {kind for kind, each in limits.items() if each.concurrency is not None}
        if not counted <= self._counted:
            await self._execute(self._sql.adopt_running, sorted(counted))
            self._counted |= counted
        try:
            done = None
            if not self._in_turn.is_crowded(kinds):
                done = await self._claim_first(worker_id, kinds, limit, now, limits, versions)
            if done is None:
                done = await self._claim_in_turn(worker_id, kinds, limit, now, limits, versions)
        except BaseException:
            self._lanes.forget()  # what it took, or passed over, may be there again
            raise
        claimed, topics = done
        view = self._lanes.known(kinds)
        if view is not None and view.old_at is not None and len(claimed.claims) < limit:
            self._notifications.wake_at(Topic.WORK, view.old_at)
        self._notifications.publish(topics)
        return claimed

    async def _claim_first(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
    ) -> tuple[Claimed, set[Topic]] | None:
        crowd = self._in_turn.crowd(kinds, limits, versions)
        return await self._database.run(
            lambda db: claiming.claim(
                db,
                self._sql,
                self._handed,
                self._lanes,
                self._in_turn.turns,
                worker_id,
                kinds,
                limit,
                now,
                crowd,
            ),
            transaction=False,
            repeatable=False,
        )

    async def _claim_in_turn(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
    ) -> tuple[Claimed, set[Topic]]:
        woken = 0
        while True:
            chosen = await self._database.run(
                lambda db: self._in_turn.claim(
                    db, self._sql, worker_id, kinds, limit, now, limits, versions
                ),
                repeatable=False,
            )
            if not chosen.due:
                break
            woken += await self._database.run(
                lambda db: claiming.promote(db, self._sql, self._lanes, now), transaction=False
            )
        if not chosen.rows:
            return Claimed([], None), set()  # the worker is not known
        claimed, topics = claiming.handed_out(self._handed, chosen.rows, worker_id, now)
        if woken:
            topics.add(Topic.WEBHOOKS)
        if chosen.locked > len(claimed.claims):
            self._lanes.forget()
            topics.add(Topic.WORK)
        times = [at for at in (claimed.next_due, chosen.next_start) if at is not None]
        return claimed._replace(next_due=min(times, default=None)), topics

    async def stands(self, kind: str, limit: Limit | None, tenant: str, key: str | None) -> Stands:
        """Count what a kind's limit counts."""
        most = 0 if limit is None else limit.concurrency or 0
        if limit is not None and limit.by_key:
            sql = self._sql.running_of_keys
            running = (await self._read_row(sql, [kind], [tenant], [key], [most]))[3]
        else:
            sql = self._sql.how_limits_stand
            running = (await self._read_row(sql, [kind], [most], [], [], []))[2]
        rate = await self._read_row(self._sql.rate, kind)
        return Stands(running, 0 if rate is None else rate[0])

    async def held_by(self, worker_id: str) -> list[Held]:
        """List what a worker holds."""
        rows = await self._read(self._sql.held_by, worker_id)
        return [Held(Lease(row[0], row[1], row[2]), row[3]) for row in rows]

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
            self._handed.said(lease, entries)
        self._notifications.publish({Topic.REPORTS, *((Topic.WEBHOOKS,) if tells else ())})
        self._taken_in([child for _, said in reports for child in said.children])
        return answers

    async def _record(self, said: recording.Said, now: int) -> dict[Lease, int] | None:
        laid_out = recording.lay_out_steps(self._handed, said)
        if laid_out is None:
            return None
        return await self._database.run(
            lambda db: recording.record_as_claimed(db, self._sql, laid_out, said, now),
            transaction=False,
        )

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        written = await self._database.run(
            lambda db: claiming.settle_as_claimed(
                db, self._sql, self._handed, self._lanes, settlements, now
            ),
            transaction=False,
        )
        after = jobs.After()
        if written is None:
            answers, topics, after = await self._database.run(
                lambda db: jobs.settle(db, self._sql, settlements, now)
            )
            self._lanes.forget()
            reports = (item.report for item in settlements if item.report is not None)
            self._taken_in([child for report in reports for child in report.children])
        else:
            answers, topics = [True] * len(settlements), written
            after.ended = self._handed.parents_wait_for(settlements)
        self._handed.forget(settlements)
        await self._follow(after, now)
        self._notifications.publish(topics)
        return answers

    async def _follow(self, after: jobs.After, now: int) -> None:
        """Do for other jobs what follows from transitions. What fails is left to the sweep."""
        if not after:
            return
        if after.deliveries:
            self._notifications.publish({Topic.WEBHOOKS})
        try:
            if after.ended:
                await self._wake(waiting.wake_those_who_wait_for, after.ended, now)
            if after.waiting:
                await self._wake(waiting.look_again, after.waiting, now)
            for key in after.cancelled:
                await self._cascade(key, now)
        except StoreUnavailable as error:
            log.warning("waking jobs is left to the sweep", extra={"why": str(error)})

    async def _wake(self, how: Any, keys: Sequence[tuple[str, str]], now: int) -> None:
        if await self._database.run(lambda db: how(db, self._sql, keys, now)):
            self._lanes.forget()
            self._notifications.publish({Topic.WORK, Topic.CHANGES, Topic.WEBHOOKS})

    async def _cascade(self, key: tuple[str, str], now: int) -> bool:
        more, after = await self._database.run(lambda db: waiting.cascade(db, self._sql, key, now))
        if after.ended:
            await self._wake(waiting.wake_those_who_wait_for, after.ended, now)
        self._notifications.publish({Topic.CANCELS, Topic.CHANGES, Topic.WEBHOOKS})
        return more

    # --- blobs

    async def reserve_blob(self, blob: BlobName, remove_at: int) -> None:
        """Note a blob before its bytes are written."""
        await self._execute(self._sql.reserve_blob, *blob, remove_at)

    async def artifact_content(self, tenant: str, job_id: str, name: str) -> str | None:
        """Read a file that is kept in its row."""
        rows = await self._read(self._sql.artifact_content, tenant, job_id, name)
        return rows[0][0] if rows else None

    async def keep_artifact(
        self, lease: Lease, artifact: Artifact, content: str | None = None
    ) -> bool:
        """Name a file of a running job."""
        kept = await self._database.run(
            lambda db: jobs.keep_artifact(db, self._sql, lease, artifact, content)
        )
        self._notifications.publish({Topic.CHANGES})
        return kept

    async def unneeded_blobs(self, now: int, limit: int) -> list[BlobName]:
        """List blobs whose bytes are to be removed."""
        rows = await self._read(self._sql.take_unneeded_blobs, now, limit)
        return [BlobName(*row) for row in rows]

    async def forget_blobs(self, gone: Sequence[BlobName]) -> None:
        """Drop what is known of blobs whose bytes are gone."""
        await self._execute(self._sql.forget_blobs, *jobs.columns(gone, 3))

    # --- uploads

    async def put_upload(self, tenant: str, upload: StoredUpload) -> None:
        """Make a file known that no job has taken over."""
        await self._database.run(lambda db: blobs.put_upload(db, self._sql, tenant, upload))

    async def get_upload(
        self, tenant: str, upload_id: str, job_id: str = NOBODY
    ) -> StoredUpload | None:
        """Read what is known of a file."""
        row = await self._read_row(self._sql.upload, tenant, job_id, upload_id)
        return None if row is None else StoredUpload(*row)

    async def uploads_of(self, tenant: str, job_id: str) -> list[StoredUpload]:
        """List the files of a job's input."""
        rows = await self._read(self._sql.uploads_of, tenant, job_id)
        return [StoredUpload(*row) for row in rows]

    async def delete_upload(self, tenant: str, upload_id: str) -> bool:
        """Give a file up that no job has taken over."""
        return await self._database.run(
            lambda db: blobs.delete_upload(db, self._sql, tenant, upload_id)
        )

    # --- keeping house

    async def sweep(self, now: int) -> Swept:
        """Do what is due, a bounded amount."""
        overdue = await self._read(self._sql.past_deadline, now, SWEEP_AT_ONCE)
        expired = 0
        if overdue:
            keys = [(row[0], row[1]) for row in overdue]
            expired, after = await self._database.run(
                lambda db: jobs.move(db, self._sql, keys, rules.expired, now)
            )
            await self._follow(after, now)
            self._notifications.publish({Topic.CHANGES})
        missed = await self._read(self._sql.missed_wakes, SWEEP_AT_ONCE)
        if missed:
            await self._wake(waiting.look_again, [(row[0], row[1]) for row in missed], now)
        cascading = [
            await self._cascade((row[0], row[1]), now)
            for row in await self._read(self._sql.cascades, SWEEP_AT_ONCE // 10)
        ]
        dropped = await self._execute(self._sql.drop_old_inputs, now, SWEEP_AT_ONCE)
        deleted = await self._database.run(lambda db: self._delete_old(db, now))
        done = (expired, int(dropped.rpartition(" ")[2]), deleted, len(missed))
        more = SWEEP_AT_ONCE in done or any(cascading)
        return Swept(expired=expired, deleted=deleted, more=more)

    async def _delete_old(self, db: Any, now: int) -> int:
        old = await db.fetch(self._sql.past_retention, now, SWEEP_AT_ONCE, self._swept_to)
        # A full hand means another round, which need not walk over what this one has deleted.
        self._swept_to = old[-1][3] if len(old) == SWEEP_AT_ONCE else 0
        if old:
            *keys, kinds, _ = jobs.columns(old, 4)
            await blobs.remove(db, self._sql, keys)
            await webhooks.remove(db, self._sql, keys)
            await self._remove(db, keys, kinds, now)
        await db.execute(self._sql.delete_old_tombstones, now - TOMBSTONES_KEPT_MS, SWEEP_AT_ONCE)
        await db.execute(self._sql.delete_expired_records, now, SWEEP_AT_ONCE)
        await db.execute(self._sql.delete_expired_keys, now, SWEEP_AT_ONCE)
        await db.execute(self._sql.add_up_usage, USAGE_AT_ONCE)
        return len(old)

    async def _remove(
        self, db: Any, keys: list[Any], kinds: list[str], now: int
    ) -> tuple[int, int, int]:
        """Delete jobs and all that belongs to them; return how many events, steps and messages
        that were.
        """
        await db.execute(self._sql.delete_listing, *keys, kinds)
        events = await db.execute(self._sql.delete_events, *keys)
        steps = await db.execute(self._sql.delete_steps, *keys)
        sent = await db.execute(self._sql.delete_messages, *keys)
        await db.execute(self._sql.delete_jobs, *keys)
        await db.execute(self._sql.insert_tombstones, *keys, now)
        counts = (int(told.rpartition(" ")[2]) for told in (events, steps, sent))
        return next(counts), next(counts), next(counts)

    async def erase(self) -> bool:
        """Do nothing: what is deleted is not visible any more, and vacuum reuses its place."""
        return True

    async def queues(self) -> list[QueueStatus]:
        """List the queues."""
        return [
            QueueStatus(
                name,
                paused,
                ready,
                delayed,
                running,
                None if oldest is None else ulid_time(oldest),
                concurrency,
            )
            for name, paused, ready, delayed, running, oldest, concurrency in await self._read(
                self._sql.queue_status
            )
        ]

    async def pause_queue(self, name: str, paused: bool, now: int) -> None:
        """Stop or resume claims from a queue."""
        await self._execute(self._sql.pause_queue, name, now if paused else None)
        self._lanes.forget()
        self._notifications.publish({Topic.WORK})

    async def limit_queue(self, name: str, concurrency: int | None) -> None:
        """Let so many jobs of a queue run at once."""

        async def limit(db: Any) -> None:
            await db.execute(self._sql.limit_queue, name, concurrency)
            await db.execute(self._sql.adopt_running_in_queue, name)

        await self._database.run(limit)
        self._lanes.forget()
        self._notifications.publish({Topic.WORK})

    async def count(self, deltas: Mapping[str, int]) -> None:
        """Add to the counters."""
        await self._execute(self._sql.count_up, list(deltas), list(deltas.values()))

    async def counters(self) -> dict[str, int]:
        """Read the counters."""
        return {row[0]: row[1] for row in await self._read(self._sql.all_counters)}

    # --- small documents

    async def put_record(
        self, record: Record, expected_version: int | None = None
    ) -> Record | None:
        """Write a document."""

        async def put(db: Any) -> Record | None:
            key = (record.tenant, record.collection, record.key)
            await db.execute(self._sql.lock_record, json.dumps(key))
            row = await db.fetchrow(self._sql.record, *key)
            written = record.over(None if row is None else Record(*row), expected_version)
            if written is not None:
                await db.execute(self._sql.put_record, *astuple(written))
            return written

        return await self._database.run(put)

    async def get_record(self, tenant: str, collection: str, key: str, now: int) -> Record | None:
        """Read a document."""
        row = await self._read_row(self._sql.record, tenant, collection, key)
        found = None if row is None else Record(*row)
        return None if found is None or found.has_expired(now) else found

    async def list_records(
        self, tenant: str, collection: str, now: int, after: str = "", limit: int = 100
    ) -> list[Record]:
        """List a collection."""
        rows = await self._read(self._sql.records_after, tenant, collection, after, now, limit)
        return [Record(*row) for row in rows]

    async def delete_record(self, tenant: str, collection: str, key: str) -> bool:
        """Delete a document."""
        return await self._execute(self._sql.delete_record, tenant, collection, key) == "DELETE 1"

    # --- being woken

    def subscribe(self, topic: Topic) -> Signal:
        """Be woken by what any process does to this schema."""
        return self._notifications.subscribe(topic)

    async def _execute(self, sql: str, *values: Any) -> str:
        return await self._database.run(lambda db: db.execute(sql, *values), transaction=False)

    async def _read(self, sql: str, *values: Any) -> list[Any]:
        return await self._database.run(lambda db: db.fetch(sql, *values), transaction=False)

    async def _read_row(self, sql: str, *values: Any) -> Any:
        return await self._database.run(lambda db: db.fetchrow(sql, *values), transaction=False)
