"""Conformance suite for stores: tests for every guarantee in `coatcheck.store.base`.

    import pytest
    from coatcheck.testing.conformance import StoreConformance

    @pytest.fixture
    async def store():
        store = MyStore(...)
        await store.open()
        yield store
        await store.close()

    class TestMyStore(StoreConformance):
        pass

Each test gets an empty, open store. The tests run on asyncio through anyio's pytest plugin and use
only the store protocol: times are integers that the tests pass in, and tests wait on signals. Call
`pytest.register_assert_rewrite("coatcheck.testing")` in the conftest to see the compared values in
a failure.
"""

from __future__ import annotations

from coatcheck.testing.conformance.access import AccessConformance
from coatcheck.testing.conformance.audit import AuditConformance
from coatcheck.testing.conformance.batches import BatchConformance
from coatcheck.testing.conformance.blobs import BlobConformance
from coatcheck.testing.conformance.cancellation import CancelConformance
from coatcheck.testing.conformance.claims import ClaimConformance
from coatcheck.testing.conformance.concurrency import ConcurrencyConformance
from coatcheck.testing.conformance.counts import CountConformance
from coatcheck.testing.conformance.deletion import DeleteConformance
from coatcheck.testing.conformance.deliveries import DeliveryConformance
from coatcheck.testing.conformance.families import FamilyConformance
from coatcheck.testing.conformance.finished_jobs import FinishedJobConformance
from coatcheck.testing.conformance.idempotency import IdempotencyConformance
from coatcheck.testing.conformance.job_lists import ListConformance
from coatcheck.testing.conformance.large_steps import LargeStepConformance
from coatcheck.testing.conformance.limits import LimitConformance
from coatcheck.testing.conformance.outbox import OutboxConformance
from coatcheck.testing.conformance.pins import VersionConformance
from coatcheck.testing.conformance.queues import QueueConformance
from coatcheck.testing.conformance.records import RecordConformance
from coatcheck.testing.conformance.rekey import RekeyConformance
from coatcheck.testing.conformance.reports import ReportConformance
from coatcheck.testing.conformance.resume import ForkConformance, ResumeConformance
from coatcheck.testing.conformance.schedules import ScheduleConformance
from coatcheck.testing.conformance.settlement import SettleConformance
from coatcheck.testing.conformance.settlement_batches import SettleManyConformance
from coatcheck.testing.conformance.steps import StepConformance
from coatcheck.testing.conformance.submission import SubmitConformance
from coatcheck.testing.conformance.sweep import SweepConformance
from coatcheck.testing.conformance.uploads import InputConformance, UploadConformance
from coatcheck.testing.conformance.wait import WaitConformance
from coatcheck.testing.conformance.wait_conditions import (
    EventConformance,
    WaitForChildrenConformance,
)
from coatcheck.testing.conformance.wakeups import WakeConformance
from coatcheck.testing.conformance.webhooks import EndpointConformance
from coatcheck.testing.conformance.workers import WorkerConformance


class StoreConformance(
    AccessConformance,
    AuditConformance,
    DeliveryConformance,
    OutboxConformance,
    EndpointConformance,
    BlobConformance,
    LargeStepConformance,
    RekeyConformance,
    UploadConformance,
    InputConformance,
    ForkConformance,
    ResumeConformance,
    FamilyConformance,
    EventConformance,
    WaitForChildrenConformance,
    WaitConformance,
    StepConformance,
    WakeConformance,
    ConcurrencyConformance,
    RecordConformance,
    ScheduleConformance,
    SweepConformance,
    QueueConformance,
    WorkerConformance,
    CountConformance,
    DeleteConformance,
    CancelConformance,
    ReportConformance,
    SettleManyConformance,
    SettleConformance,
    ClaimConformance,
    LimitConformance,
    VersionConformance,
    ListConformance,
    BatchConformance,
    IdempotencyConformance,
    FinishedJobConformance,
    SubmitConformance,
):
    """The complete conformance suite for a store."""


__all__ = ["StoreConformance"]
