"""The PostgreSQL store: one schema, shared by any number of processes on any number of machines.

The semantics are those of the SQLite store. Concurrent calls of one verb become one statement
(coalesce.py), claims skip locked rows (fast_claim.py, fair_claim.py), wake-ups travel by NOTIFY
(notify.py). The death of a process on another machine cannot be known for certain, so `known_dead`
is always False.
"""

from __future__ import annotations

from coatcheck.ids import UlidGenerator
from coatcheck.store.base import Signal, Topic
from coatcheck.store.postgres.access import PostgresAccess
from coatcheck.store.postgres.audit import PostgresAudit
from coatcheck.store.postgres.claims.claimer import PostgresClaimer
from coatcheck.store.postgres.database.notify import Notifications
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.schema import check_schema, migrate
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.files import PostgresFiles
from coatcheck.store.postgres.jobs import PostgresJobs
from coatcheck.store.postgres.maintenance import PostgresMaintenance
from coatcheck.store.postgres.operations.after_commit import AfterCommit, WorkNotifier
from coatcheck.store.postgres.queues import PostgresQueues
from coatcheck.store.postgres.records import PostgresRecords
from coatcheck.store.postgres.rekey import PostgresRekey
from coatcheck.store.postgres.schedules import PostgresSchedules
from coatcheck.store.postgres.webhooks import PostgresWebhooks
from coatcheck.store.postgres.workers import PostgresWorkers
from coatcheck.store.shared.migrations import Migration


class PostgresStore:
    """A store in one PostgreSQL schema."""

    jobs: PostgresJobs
    workers: PostgresWorkers
    files: PostgresFiles
    queues: PostgresQueues
    records: PostgresRecords
    schedules: PostgresSchedules
    webhooks: PostgresWebhooks
    access: PostgresAccess
    audit: PostgresAudit
    rekey: PostgresRekey
    maintenance: PostgresMaintenance

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
        self._sql = Statements(schema)
        self._database = Database(dsn, connections=connections)
        token = UlidGenerator()()
        self._compose(
            PostgresClaimer(self._database, self._sql),
            Notifications(self._database, self._sql, token, poll_s),
        )

    def _compose(self, claimer: PostgresClaimer, notifications: Notifications) -> None:
        """Build the parts around their shared collaborators."""
        self._claimer = claimer
        self._notifications = notifications
        database, sql = self._database, self._sql
        work = WorkNotifier(claimer, notifications)
        self._after_commit = after_commit = AfterCommit(database, sql, notifications, work)
        self.jobs = PostgresJobs(database, sql, notifications, work, after_commit)
        self.workers = PostgresWorkers(database, sql, notifications, claimer, work, after_commit)
        self.files = PostgresFiles(database, sql, notifications)
        self.queues = PostgresQueues(database, sql, work)
        self.records = PostgresRecords(database, sql)
        self.schedules = PostgresSchedules(database, sql, notifications, work)
        self.webhooks = PostgresWebhooks(database, sql, notifications)
        self.access = PostgresAccess(database, sql)
        self.audit = PostgresAudit(database, sql)
        self.rekey = PostgresRekey(database, sql)
        self.maintenance = PostgresMaintenance(database, sql, notifications, work, after_commit)

    async def open(self) -> None:
        """Apply missing migrations, which needs rights only if there are any, and connect."""
        self.jobs.open()
        self.workers.open()
        await self.migrate()
        await self._database.open()
        await check_schema(self._database, self._sql)
        listen_dsn = self._listen_dsn
        if listen_dsn is None and not self._database.pooled:
            listen_dsn = self._dsn
        self._notifications.open(listen_dsn)

    async def migrate(self) -> list[Migration]:
        """Apply missing migrations under a lock."""
        return await migrate(self._dsn, self._sql)

    async def close(self) -> None:
        """Finish the writes in progress and close the connections."""
        await self.jobs.drain()
        await self.workers.drain()
        await self._notifications.close()
        await self._database.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless a write succeeds."""
        await self.maintenance.increment_counters({"pings": 1})

    def subscribe(self, topic: Topic) -> Signal:
        """Return a signal that commits of any process on this schema set."""
        return self._notifications.subscribe(topic)
