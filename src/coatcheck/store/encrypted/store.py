"""Encrypting decorators around any store.

`EncryptedStore` encrypts everything that users submit and handlers write: inputs, results, results
and errors of steps, errors, log lines, output, progress messages, data of events, inputs of
schedules, records, small artifacts, and webhook secrets. The inner store sees only ciphertext. The
columns it decides by stay in clear: ids, kinds, queues, states, phases, labels, times, counts,
names and keys of steps, error codes, webhook addresses, and references to blobs (whose bytes
`blobs/encrypted.py` encrypts).

`PlainStore` is used if there are no encryption keys. This store encrypts webhook secrets only.

The parts in parts.py, plain.py and secrets.py do the work; other parts are the inner store's own.
"""

from __future__ import annotations

from coatcheck.crypto.encryption import Keyring
from coatcheck.store.base import Signal, Store, Topic
from coatcheck.store.encrypted.parts import (
    EncryptedFiles,
    EncryptedJobs,
    EncryptedRecords,
    EncryptedSchedules,
    EncryptedWorkers,
)
from coatcheck.store.encrypted.plain import PlainJobs, PlainWorkers
from coatcheck.store.encrypted.secrets import EncryptedWebhooks, SecretKeys
from coatcheck.store.files import FileStore
from coatcheck.store.jobs import JobStore
from coatcheck.store.records import RecordStore
from coatcheck.store.schedules import ScheduleStore
from coatcheck.store.shared.migrations import Migration
from coatcheck.store.webhooks import WebhookStore
from coatcheck.store.workers import WorkerStore


class StoreDecorator:
    """A store that forwards to another one. Subclasses replace parts."""

    def __init__(self, store: Store) -> None:
        self.inner = store
        self.jobs: JobStore = store.jobs
        self.workers: WorkerStore = store.workers
        self.files: FileStore = store.files
        self.queues = store.queues
        self.records: RecordStore = store.records
        self.schedules: ScheduleStore = store.schedules
        self.webhooks: WebhookStore = store.webhooks
        self.access = store.access
        self.audit = store.audit
        self.rekey = store.rekey
        self.maintenance = store.maintenance

    async def open(self) -> None:
        """Open the inner store."""
        await self.inner.open()

    async def migrate(self) -> list[Migration]:
        """Apply missing migrations to the inner store."""
        return await self.inner.migrate()

    async def close(self) -> None:
        """Close the inner store."""
        await self.inner.close()

    async def ping(self) -> None:
        """Raise StoreUnavailable unless a write succeeds."""
        await self.inner.ping()

    def subscribe(self, topic: Topic) -> Signal:
        """Return a signal of the inner store."""
        return self.inner.subscribe(topic)


class PlainStore(StoreDecorator):
    """A store without encryption keys. Webhook secrets are still encrypted."""

    def __init__(self, store: Store, secrets: SecretKeys) -> None:
        super().__init__(store)
        self.jobs = PlainJobs(store.jobs)
        self.workers = PlainWorkers(store.workers)
        self.webhooks = EncryptedWebhooks(store.webhooks, store.rekey, secrets)


class EncryptedStore(StoreDecorator):
    """A store whose contents can only be read with a key."""

    def __init__(self, store: Store, keys: Keyring, secrets: SecretKeys | None = None) -> None:
        super().__init__(store)
        self.jobs = EncryptedJobs(store.jobs, keys)
        self.workers = EncryptedWorkers(store.workers, keys)
        self.files = EncryptedFiles(store.files, keys)
        self.records = EncryptedRecords(store.records, keys)
        self.schedules = EncryptedSchedules(store.schedules, keys)
        self.webhooks = EncryptedWebhooks(store.webhooks, store.rekey, secrets or keys)
