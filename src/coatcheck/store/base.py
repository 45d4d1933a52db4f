"""The store: durable state behind typed parts.

`Store` opens and closes a database and composes its parts. Each part is a Protocol in the module
beside this one that bears its name:

    store.jobs         submit, read, cancel, resume, fork, delete     (store/jobs.py)
    store.workers      register, claim, report, settle                (store/workers.py)
    store.files        blobs, artifacts, uploads                      (store/files.py)
    store.queues       pause, limit, status                           (store/queues.py)
    store.records      small JSON documents with versions             (store/records.py)
    store.schedules    schedules and their ticks                      (store/schedules.py)
    store.webhooks     endpoints, secrets, the outbox                 (store/webhooks.py)
    store.access       tenants, API keys, usage                       (store/access.py)
    store.audit        the audit trail                                (store/audit.py)
    store.rekey        encrypted columns, for a change of keys        (store/rekey.py)
    store.maintenance  sweep, secure deletion, counters               (store/maintenance.py)

Rules that hold for every part:

- A write that returned is durable. A write that raised StoreUnavailable may or may not have
  happened; callers repeat it with the same ids.
- A transition writes the job, its event, its webhook deliveries and its usage in one transaction.
- All times come from the caller, in milliseconds since the epoch. A store has no clock.

The two implementations share little code: these Protocols, the conversion of rows to values
(`rows.py`), fairness (`fairness.py`, `lane_cache.py`) and limits (`limits.py`). SQLite runs
operations one by one in a group commit and takes every transition from `model/transition.py`.
PostgreSQL coalesces calls into set statements; its fast paths (claim, checkpoint, settle) repeat
the common transitions in SQL. One conformance suite covers both stores, random histories compare
them, and `tests/store/test_rules.py` pins each rule that exists twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from coatcheck.store.access import AccessStore
from coatcheck.store.audit import AuditStore
from coatcheck.store.files import FileStore
from coatcheck.store.jobs import (
    BATCH_LIMIT,
    NO_COPIES,
    NO_WORKER,
    DeletedJob,
    ExistingSubmission,
    FinishedJob,
    Idempotency,
    JobFilter,
    JobStore,
)
from coatcheck.store.maintenance import MaintenanceStore, SweepResult
from coatcheck.store.queues import QueueStatus, QueueStore
from coatcheck.store.records import RecordStore
from coatcheck.store.rekey import RekeyStore
from coatcheck.store.schedules import ScheduleStore
from coatcheck.store.shared.migrations import Migration
from coatcheck.store.webhooks import WebhookStore
from coatcheck.store.workers import (
    NO_LIMITS,
    NO_VERSIONS,
    ClaimResult,
    HeldJob,
    LimitUsage,
    RegisteredWorker,
    Report,
    Settlement,
    WorkerStore,
)

__all__ = [
    "BATCH_LIMIT",
    "NO_COPIES",
    "NO_LIMITS",
    "NO_VERSIONS",
    "NO_WORKER",
    "ClaimResult",
    "DeletedJob",
    "ExistingSubmission",
    "FinishedJob",
    "HeldJob",
    "Idempotency",
    "JobFilter",
    "LimitUsage",
    "QueueStatus",
    "RegisteredWorker",
    "Report",
    "Settlement",
    "Signal",
    "Store",
    "SweepResult",
    "Topic",
]


class Topic(StrEnum):
    """A kind of change that a waiter can be woken for."""

    WORK = "work"  # a job may have become claimable, or due at a new time
    CANCELS = "cancels"  # the cancellation of a running job was requested
    CHANGES = "changes"  # a job changed its state or was deleted
    REPORTS = "reports"  # a running job reported progress, events or steps
    SCHEDULES = "schedules"  # a schedule was created or changed
    WEBHOOKS = "webhooks"  # a delivery may be due


class Signal(Protocol):
    """A wake-up for one waiter. Wake-ups coalesce, none is lost, and some are spurious."""

    async def wait(self, timeout: float | None = None) -> bool:
        """Return True if woken since the last wait, False after the timeout."""
        ...

    def close(self) -> None:
        """Unsubscribe."""
        ...


class Store(Protocol):
    """Durable state: the life cycle of the database, and the parts that hold the verbs.

    The parts exist from construction on. Their verbs need an open store.
    """

    @property
    def jobs(self) -> JobStore:
        """The jobs."""
        ...

    @property
    def workers(self) -> WorkerStore:
        """The workers and their leases."""
        ...

    @property
    def files(self) -> FileStore:
        """The blobs, artifacts and uploads."""
        ...

    @property
    def queues(self) -> QueueStore:
        """The queues."""
        ...

    @property
    def records(self) -> RecordStore:
        """The small documents."""
        ...

    @property
    def schedules(self) -> ScheduleStore:
        """The schedules."""
        ...

    @property
    def webhooks(self) -> WebhookStore:
        """The webhook endpoints and deliveries."""
        ...

    @property
    def access(self) -> AccessStore:
        """The tenants and their keys."""
        ...

    @property
    def audit(self) -> AuditStore:
        """The audit trail."""
        ...

    @property
    def rekey(self) -> RekeyStore:
        """The encrypted columns."""
        ...

    @property
    def maintenance(self) -> MaintenanceStore:
        """The periodic work and the counters."""
        ...

    async def open(self) -> None:
        """Connect, and apply missing migrations under a lock."""
        ...

    async def migrate(self) -> list[Migration]:
        """Apply missing migrations and return them. The store need not be open."""
        ...

    async def close(self) -> None:
        """Finish the writes in progress and release all resources."""
        ...

    async def ping(self) -> None:
        """Raise StoreUnavailable unless an increment of the counter `pings` succeeds."""
        ...

    def subscribe(self, topic: Topic) -> Signal:
        """Return a signal, on the running loop, that commits of any process set."""
        ...
