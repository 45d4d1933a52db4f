"""Conformance tests for tenants, API keys, the access epoch, usage counters and quota load."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coatcheck.errors import AccessChanged, Conflict
from coatcheck.model.access import ApiKey, Load, Quotas, Tenant, TenantStatus
from coatcheck.model.outcome import Errored, GaveUp, Released, Succeeded
from coatcheck.model.payload import NOBODY, BlobName, BlobReference, write_reference
from coatcheck.model.upload import StoredUpload
from coatcheck.model.usage import HOUR_MS, Usage, hour_of
from coatcheck.store.access import AccessState
from coatcheck.store.base import Idempotency, Store
from coatcheck.testing.conformance.arrange import (
    BOOM,
    NOW,
    TENANT,
    Conformance,
    claim,
    everything,
    new_id,
    new_job,
    reclaim,
    run_job,
    settle,
    spawn,
)

HOUR = hour_of(NOW)
KEY = ApiKey("0123456789ab", "acme", "d1", ("jobs:read", "jobs:write:mail"), "ci", NOW, NOW + 9)


async def used(store: Store, tenant: str = TENANT) -> list[Usage]:
    """Return all usage rows of a tenant."""
    return await store.access.list_usage(tenant, 0, NOW * 2)


async def total(store: Store, tenant: str = TENANT) -> dict[str, Any]:
    """Return the nonzero counters of a tenant that has usage for a single kind and hour."""
    [found] = await used(store, tenant)
    return {name: value for name, value in found._asdict().items() if value and name != "tenant"}


class KeyConformance(Conformance):
    """Tests for tenants and API keys."""

    async def test_a_new_store_has_neither_keys_nor_tenants(self, store: Store) -> None:
        """A new store has no keys and no tenants, and its epoch is 0."""
        assert await store.access.get_state() == AccessState(0, has_keys=False)
        assert await store.access.list_tenants() == []
        assert await store.access.list_keys() == []
        assert await store.access.get_tenant("acme") is None
        assert await store.access.get_key(KEY.id) is None

    async def test_a_key_is_kept_with_its_tenant(self, store: Store) -> None:
        """Adding a key creates its tenant if the tenant does not exist."""
        await store.access.add_key(KEY)
        tenant = Tenant("acme", created_at=NOW, updated_at=NOW)
        assert await store.access.get_key(KEY.id) == (KEY, tenant)
        assert await store.access.list_keys() == [KEY]
        assert (await store.access.get_state()).has_keys

    async def test_a_tenant_that_is_there_stays_as_it_is(self, store: Store) -> None:
        """Adding a key leaves an existing tenant's status and quotas unchanged."""
        limits = Quotas(jobs_waiting=3, stored_bytes=0)
        tenant = Tenant("acme", TenantStatus.SUSPENDED, limits, NOW, NOW)
        await store.access.put_tenant(tenant)
        await store.access.add_key(KEY)
        assert await store.access.get_key(KEY.id) == (KEY, tenant)

    async def test_a_tenant_is_changed_as_a_whole(self, store: Store) -> None:
        """`put_tenant` replaces every field except the creation time."""
        await store.access.put_tenant(Tenant("acme", quotas=Quotas(1, 2, 3, 4, 5), created_at=NOW))
        await store.access.put_tenant(
            Tenant("acme", TenantStatus.UNPAID, created_at=NOW + 5, updated_at=NOW + 5)
        )
        changed = Tenant("acme", TenantStatus.UNPAID, Quotas(), NOW, NOW + 5)
        assert await store.access.get_tenant("acme") == changed

    async def test_an_id_that_is_taken_is_refused(self, store: Store) -> None:
        """Adding a key with an existing id raises `Conflict` and keeps the first key."""
        await store.access.add_key(KEY)
        with pytest.raises(Conflict):
            await store.access.add_key(KEY._replace(tenant="other", digest="d2"))
        assert await store.access.list_keys() == [KEY]
        assert [tenant.name for tenant in await store.access.list_tenants()] == ["acme"]

    async def test_keys_and_tenants_are_listed_page_by_page(self, store: Store) -> None:
        """Keys and tenants are sorted by name; keys can be filtered by tenant."""
        keys = [
            KEY._replace(id=id_, tenant=tenant) for id_, tenant in zip("abcd", "xyxy", strict=True)
        ]
        for key in reversed(keys):
            await store.access.add_key(key)
        assert await store.access.list_keys(limit=3) == keys[:3]
        assert await store.access.list_keys(after="c") == keys[3:]
        assert await store.access.list_keys("x") == keys[0::2]
        assert await store.access.list_keys("y", after="b", limit=1) == keys[3:]
        assert [tenant.name for tenant in await store.access.list_tenants(limit=1)] == ["x"]
        assert [tenant.name for tenant in await store.access.list_tenants(after="x")] == ["y"]

    async def test_a_key_is_revoked_once(self, store: Store) -> None:
        """A revoked key stays listed; revoking it again keeps the first revocation time."""
        await store.access.add_key(KEY)
        gone = KEY._replace(revoked_at=NOW + 1)
        assert await store.access.revoke_key(KEY.id, NOW + 1) == gone
        assert await store.access.revoke_key(KEY.id, NOW + 2) == gone
        assert await store.access.list_keys() == [gone]
        assert (await store.access.get_state()).has_keys, (
            "revoking the last key must not open the doors"
        )

    async def test_what_is_not_there_is_not_revoked(self, store: Store) -> None:
        """Revoking an unknown key returns None."""
        assert await store.access.revoke_key("nobody", NOW) is None

    async def test_every_change_raises_the_epoch(self, store: Store) -> None:
        """Adding a key, changing a tenant and revoking a key each raise the epoch."""
        seen = [(await store.access.get_state()).epoch]
        for change in (
            store.access.add_key(KEY),
            store.access.put_tenant(Tenant("acme", TenantStatus.SUSPENDED)),
            store.access.revoke_key(KEY.id, NOW),
        ):
            await change
            seen.append((await store.access.get_state()).epoch)
        assert seen == sorted(set(seen))


class EpochConformance(Conformance):
    """Tests for submits that name an access epoch."""

    async def test_a_job_is_submitted_under_the_present_epoch(self, store: Store) -> None:
        """A submit with the current epoch succeeds, with or without an idempotency key."""
        await store.access.add_key(KEY)
        epoch = (await store.access.get_state()).epoch
        await store.jobs.submit(new_job(), NOW, None, epoch)
        await store.jobs.submit(new_job(), NOW, Idempotency("k", "f", NOW + 9), epoch)
        assert len(await everything(store)) == 2

    async def test_under_one_that_has_passed_nothing_is_written(self, store: Store) -> None:
        """A submit with an outdated epoch writes no job, no idempotency key and no usage."""
        epoch = (await store.access.get_state()).epoch
        await store.access.add_key(KEY)
        once = Idempotency("k", "f", NOW + 9)
        for key in (None, once):
            with pytest.raises(AccessChanged):
                await store.jobs.submit(new_job(), NOW, key, epoch)
        assert await everything(store) == []
        assert await used(store) == []
        assert await store.jobs.find_submission(TENANT, "k", NOW) is None

    async def test_of_a_crowd_only_those_with_an_old_epoch_are_refused(self, store: Store) -> None:
        """A concurrent submit with an old epoch never succeeds; only accepted jobs are stored.

        The store may reject the whole group, including submits with the current epoch.
        """
        old = (await store.access.get_state()).epoch
        await store.access.add_key(KEY)
        new = (await store.access.get_state()).epoch
        jobs = [new_job() for _ in range(30)]
        epochs = [(None, old, new)[number % 3] for number in range(30)]
        answers = await asyncio.gather(
            *(
                store.jobs.submit(job, NOW, None, epoch)
                for job, epoch in zip(jobs, epochs, strict=True)
            ),
            return_exceptions=True,
        )
        assert {type(answer) for answer in answers} <= {type(None), AccessChanged}
        for answer, epoch in zip(answers, epochs, strict=True):
            assert answer is not None or epoch != old
        accepted = {job.id for job, said in zip(jobs, answers, strict=True) if said is None}
        assert {job.id for job in await everything(store)} == accepted

    async def test_what_was_submitted_under_a_key_can_be_read(self, store: Store) -> None:
        """A submission is found by its key until the key expires, and only by its own tenant."""
        job = new_job()
        await store.jobs.submit(job, NOW, Idempotency("k", "f", NOW + 9))
        found = await store.jobs.find_submission(TENANT, "k", NOW)
        assert found is not None
        assert (found.first_id, found.jobs, found.fingerprint) == (job.id, 1, "f")
        assert await store.jobs.find_submission(TENANT, "k", NOW + 9) is None
        assert await store.jobs.find_submission("acme", "k", NOW) is None


class UsageCounts(Conformance):
    """Byte counting that a store's tests may override."""

    def kept(self, text: str) -> int:
        """Return how many bytes the store counts for a text."""
        return len(text.encode())


class UsageConformance(UsageCounts):
    """Tests for usage counters per tenant, kind and hour."""

    async def test_each_way_in_counts_once(self, store: Store, worker: str) -> None:
        """A job counts once, whether submitted alone, in a batch, with a key or as a fork."""
        first = new_job()
        await store.jobs.submit(first, NOW)
        await store.jobs.submit(first, NOW)
        await asyncio.gather(*(store.jobs.submit(new_job(), NOW) for _ in range(20)))
        await store.jobs.submit_batch([new_job() for _ in range(250)], NOW)
        once = Idempotency("k", "f", NOW + 9)
        await store.jobs.submit(new_job(), NOW, once)
        await store.jobs.submit(new_job(), NOW, once)
        await store.jobs.fork(first.id, 0, new_job(forked_from=first.id), NOW)
        assert await total(store) == {
            "kind": "mail",
            "hour": HOUR,
            "submitted": 273,
            "input_bytes": 273 * self.kept('{"n":1}'),
        }

    async def test_spawned_jobs_count(self, store: Store, worker: str) -> None:
        """Spawned jobs count for their parent's tenant, under their own kind."""
        parent = await run_job(store, new_job(tenant="acme"))
        await spawn(store, parent, 2)
        found = {use.kind: use.submitted for use in await used(store, "acme")}
        assert found == {"mail": 1, "child": 2}

    async def test_bytes_are_counted_as_they_are_sent(self, store: Store) -> None:
        """Inputs are counted in UTF-8 bytes; a blob counts with its own size."""
        text = new_job(input='"ü"')
        blob = new_job()
        await store.files.reserve_blob(BlobName(TENANT, blob.id, "a"), NOW + 9)
        kept = write_reference(BlobReference("a", 1_000_000, "00"))
        await asyncio.gather(
            store.jobs.submit(text, NOW), store.jobs.submit(blob._replace(input=kept), NOW)
        )
        assert (await total(store))["input_bytes"] == 1_000_000 + self.kept('"ü"')

    async def test_an_end_is_counted_with_its_run(self, store: Store, worker: str) -> None:
        """A run counts in the hour in which it ends, even if its outcome is settled twice."""
        lease = await run_job(store)
        later = NOW + HOUR_MS
        assert await settle(store, lease, Succeeded("1"), later)
        assert await settle(store, lease, Succeeded("1"), later + 5)
        assert await used(store) == [
            Usage(TENANT, "mail", HOUR, submitted=1, input_bytes=self.kept('{"n":1}')),
            Usage(TENANT, "mail", hour_of(later), runs=1, run_ms=HOUR_MS, succeeded=1),
        ]

    async def test_every_run_counts_and_the_end_once(self, store: Store, worker: str) -> None:
        """Failed, released and lost runs all count, but do not count as a failed job."""
        lease = await run_job(store)
        for outcome in (Errored(BOOM, 0), Released()):
            assert await settle(store, lease, outcome, NOW + 10)
            lease = await reclaim(store, lease.job_id, now=NOW + 10)
        await store.workers.remove_worker(worker, None, NOW + 15)
        found = await total(store)
        assert (found["runs"], found["run_ms"], found.get("failed", 0)) == (3, 15, 0)

    async def test_a_stale_write_counts_nothing(self, store: Store, worker: str) -> None:
        """A settlement with a stale lease is rejected and adds no usage."""
        lease = await run_job(store)
        await settle(store, lease, Released())
        await reclaim(store, lease.job_id)
        before = await total(store)
        assert not await settle(store, lease, Succeeded("1"), NOW + 99)
        assert await total(store) == before

    async def test_many_that_end_at_once_are_told_apart(self, store: Store, worker: str) -> None:
        """Jobs that finish together are counted by tenant and kind."""
        for tenant in ("a", "b"):
            for kind in ("mail", "chart"):
                await store.jobs.submit_batch([new_job(kind, tenant=tenant) for _ in range(3)], NOW)
        for number, one in enumerate(await claim(store, "mail", "chart")):
            outcome = Succeeded("1") if number % 3 else GaveUp(BOOM)
            await settle(store, one.lease, outcome, NOW + 2)
        found = [use for tenant in ("a", "b") for use in await used(store, tenant)]
        assert [(use.submitted, use.runs, use.run_ms) for use in found] == [(3, 3, 6)] * 4
        assert sum(use.succeeded for use in found) == 8
        assert sum(use.failed for use in found) == 4

    async def test_cancelled_and_expired_jobs_count_as_ended(self, store: Store) -> None:
        """Cancelled and expired jobs count as finished, without a run."""
        job = new_job()
        await store.jobs.submit(job, NOW)
        await store.jobs.cancel(TENANT, job.id, NOW)
        late = new_job()
        late = late._replace(terms=late.terms._replace(deadline_at=NOW + 1))
        await store.jobs.submit(late, NOW)
        await store.maintenance.sweep(NOW + 2)
        found = await total(store)
        assert (found["cancelled"], found["failed"], found.get("runs", 0)) == (1, 1, 0)

    async def test_usage_outlives_its_jobs(self, store: Store, worker: str) -> None:
        """Neither deleting a job nor a sweep changes the recorded usage."""
        lease = await run_job(store)
        await settle(store, lease, Succeeded("1"), NOW + 4)
        before = await total(store)
        await store.maintenance.sweep(NOW + 5)
        await store.jobs.delete(TENANT, lease.job_id, NOW + 5)
        await store.maintenance.sweep(NOW + 6)
        assert await total(store) == before

    async def test_usage_is_read_by_time_and_kind(self, store: Store) -> None:
        """The start of the time range is inclusive, its end exclusive."""
        for hours in range(3):
            at = NOW + hours * HOUR_MS
            await store.jobs.submit(new_job(created_at=at), at)
            await store.jobs.submit(new_job("chart", created_at=at), at)
        found = await store.access.list_usage(TENANT, HOUR + HOUR_MS, HOUR + 2 * HOUR_MS)
        assert [(use.hour, use.kind) for use in found] == [
            (HOUR + HOUR_MS, "chart"),
            (HOUR + HOUR_MS, "mail"),
        ]
        assert len(await store.access.list_usage(TENANT, 0, NOW * 2, "mail")) == 3
        assert await store.access.list_usage("acme", 0, NOW * 2) == []


class LoadConformance(UsageCounts):
    """Tests for how much of its quotas a tenant uses."""

    async def test_only_what_has_a_quota_is_counted(self, store: Store) -> None:
        """Load without a quota is not measured and stays 0."""
        await store.jobs.submit(new_job(), NOW)
        assert await store.access.measure_load(TENANT, Quotas(), NOW) == Load()

    async def test_jobs_are_counted_by_what_they_do(self, store: Store, worker: str) -> None:
        """Queued and delayed jobs count as waiting; jobs of other tenants do not count."""
        await store.jobs.submit(new_job(tenant="acme"), NOW)
        ended = await run_job(store, new_job("chart"))
        await settle(store, ended, Succeeded("1"))
        for job in (new_job("chart"), new_job("zip"), new_job("zip", run_at=NOW + 99)):
            await store.jobs.submit(job, NOW)
        await claim(store, "chart")
        found = await store.access.measure_load(TENANT, Quotas(10, 10), NOW)
        assert (found.jobs_waiting, found.jobs_running) == (2, 1)

    async def test_jobs_are_counted_no_further_than_to_the_quota(self, store: Store) -> None:
        """Counting stops at the quota, which bounds its cost."""
        await store.jobs.submit_batch([new_job() for _ in range(20)], NOW)
        found = await store.access.measure_load(
            TENANT, Quotas(jobs_waiting=7, submits_per_minute=5), NOW
        )
        assert (found.jobs_waiting, found.submits_per_minute) == (7, 5)

    async def test_rates_look_back_a_minute(self, store: Store) -> None:
        """Submits and payload bytes are counted over the last minute."""
        for at in (NOW - 60_001, NOW - 59_999, NOW):
            await store.jobs.submit(new_job(created_at=at, input='"12345"'), at)
        quotas = Quotas(submits_per_minute=100, payload_bytes=100)
        found = await store.access.measure_load(TENANT, quotas, NOW)
        assert (found.submits_per_minute, found.payload_bytes) == (2, 2 * self.kept('"12345"'))

    async def test_what_is_stored_is_added_up(self, store: Store, worker: str) -> None:
        """Inputs and results count until their job is deleted; a blob counts with its size."""
        lease = await run_job(store, new_job(input="12"))
        await store.files.reserve_blob(BlobName(TENANT, lease.job_id, "a"), NOW + 9)
        await settle(store, lease, Succeeded(write_reference(BlobReference("a", 1_000, "00"))))
        quotas = Quotas(stored_bytes=10)
        assert (
            await store.access.measure_load(TENANT, quotas, NOW)
        ).stored_bytes == 1_000 + self.kept("12")
        await store.jobs.delete(TENANT, lease.job_id, NOW)
        assert (await store.access.measure_load(TENANT, quotas, NOW)).stored_bytes == 0

    async def test_a_file_that_waits_for_its_job_is_stored_too(self, store: Store) -> None:
        """An upload without a job counts as stored until it is deleted."""
        upload = StoredUpload(new_id(), None, "text/plain", 700, "00" * 32, "k", NOW, NOW + 9)
        await store.files.reserve_blob(BlobName(TENANT, NOBODY, "k"), NOW + 9)
        await store.files.put_upload(TENANT, upload)
        quotas = Quotas(stored_bytes=10)
        assert (await store.access.measure_load(TENANT, quotas, NOW)).stored_bytes == 700
        await store.files.delete_upload(TENANT, upload.id)
        assert (await store.access.measure_load(TENANT, quotas, NOW)).stored_bytes == 0


class AccessConformance(KeyConformance, EpochConformance, UsageConformance, LoadConformance):
    """All access tests."""
