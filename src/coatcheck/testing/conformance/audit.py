"""Conformance tests for the audit log: entries commit with their change, are listed and expire."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from coatcheck.errors import Conflict
from coatcheck.ids import first_ulid_at
from coatcheck.model.access import ApiKey, KeyUse, Tenant
from coatcheck.model.audit import Action, AuditEntry, Resource, audited
from coatcheck.model.record import Record
from coatcheck.model.webhook import WebhookSecret
from coatcheck.store.audit import AuditFilter
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import NOW, TENANT, Conformance, new_id
from coatcheck.testing.conformance.schedules import new_schedule
from coatcheck.testing.conformance.webhooks import new_endpoint

KEY = ApiKey("0123456789ab", "acme", "d1", ("jobs:read",), "", NOW)
MINUTE = 60_000


def entry(
    action: Action, resource_id: str = "it", tenant: str = TENANT, **fields: Any
) -> AuditEntry:
    """Return an audit entry for a change made with an API key, with a new id."""
    made = audited(new_id(), "0a0b0c0d0e0f", action, resource_id, tenant, what="is said")
    return made._replace(**fields)


async def listed(store: Store, **fields: Any) -> list[AuditEntry]:
    """List audit entries, oldest first."""
    return (await store.audit.list_entries(AuditFilter(**{"limit": 200, **fields})))[::-1]


class AuditConformance(Conformance):
    """Tests for the `audit=` argument, `list_entries`, `delete_entries` and `touch_keys`."""

    async def test_every_change_writes_its_entry(self, store: Store) -> None:
        """Entries are listed in the order of their changes, with all fields unchanged."""
        endpoint, schedule = new_endpoint(), new_schedule("nightly")
        record = Record(TENANT, "tasks", "t1", "{}", 0, NOW)
        made = {
            action: entry(action)
            for action in (
                Action.CREATE_TENANT,
                Action.CREATE_KEY,
                Action.REVOKE_KEY,
                Action.CREATE_WEBHOOK,
                Action.ROTATE_WEBHOOK,
                Action.DELETE_WEBHOOK,
                Action.CREATE_SCHEDULE,
                Action.PAUSE_SCHEDULE,
                Action.DELETE_SCHEDULE,
                Action.CREATE_TASK,
                Action.DELETE_TASK,
            )
        }
        await store.access.put_tenant(Tenant("acme"), audit=made[Action.CREATE_TENANT])
        await store.access.add_key(KEY, audit=made[Action.CREATE_KEY])
        await store.access.revoke_key(KEY.id, NOW, audit=made[Action.REVOKE_KEY])
        await store.webhooks.put_endpoint(
            endpoint, WebhookSecret("whsec_a", NOW), audit=made[Action.CREATE_WEBHOOK]
        )
        await store.webhooks.put_secret(
            TENANT,
            endpoint.id,
            WebhookSecret("whsec_b", NOW),
            NOW,
            audit=made[Action.ROTATE_WEBHOOK],
        )
        await store.webhooks.delete_endpoint(TENANT, endpoint.id, audit=made[Action.DELETE_WEBHOOK])
        await store.schedules.put_schedule(schedule, None, audit=made[Action.CREATE_SCHEDULE])
        paused = replace(schedule, paused=True, revision="r2")
        await store.schedules.put_schedule(
            paused, schedule.revision, audit=made[Action.PAUSE_SCHEDULE]
        )
        await store.schedules.delete_schedule(
            TENANT, schedule.name, audit=made[Action.DELETE_SCHEDULE]
        )
        await store.records.put_record(record, audit=made[Action.CREATE_TASK])
        await store.records.delete_record(TENANT, "tasks", "t1", audit=made[Action.DELETE_TASK])
        assert await listed(store) == list(made.values())

    async def test_a_change_that_does_not_happen_writes_none(self, store: Store) -> None:
        """A change that is rejected, repeated or finds no target writes no entry."""
        schedule = new_schedule("nightly")
        record = Record(TENANT, "tasks", "t1", "{}", 0, NOW)
        await store.access.add_key(KEY)
        await store.access.revoke_key(KEY.id, NOW)
        await store.schedules.put_schedule(schedule, None)
        await store.records.put_record(record)
        await store.webhooks.put_secret(TENANT, "", WebhookSecret("whsec_a", NOW), NOW)
        with pytest.raises(Conflict):
            await store.access.add_key(KEY._replace(digest="d2"), audit=entry(Action.CREATE_KEY))
        await store.access.revoke_key(KEY.id, NOW, audit=entry(Action.REVOKE_KEY))
        await store.access.revoke_key("none", NOW, audit=entry(Action.REVOKE_KEY))
        other = replace(schedule, revision="r2")
        assert not await store.schedules.put_schedule(
            other, None, audit=entry(Action.CREATE_SCHEDULE)
        )
        assert not await store.schedules.put_schedule(
            other, "r0", audit=entry(Action.UPDATE_SCHEDULE)
        )
        assert not await store.schedules.delete_schedule(
            TENANT, "no", audit=entry(Action.DELETE_SCHEDULE)
        )
        assert await store.records.put_record(record, 7, audit=entry(Action.UPDATE_TASK)) is None
        assert not await store.records.delete_record(
            TENANT, "tasks", "t2", audit=entry(Action.DELETE_TASK)
        )
        assert not await store.webhooks.delete_endpoint(
            TENANT, "no", audit=entry(Action.DELETE_WEBHOOK)
        )
        again = WebhookSecret("whsec_b", NOW)
        rotated = entry(Action.ROTATE_WEBHOOK)
        assert not await store.webhooks.put_secret(
            TENANT, "", again, NOW, first=True, audit=rotated
        )
        assert await listed(store) == []

    async def test_a_tenant_that_comes_with_its_key_has_an_entry(self, store: Store) -> None:
        """Only the key that creates the tenant writes the tenant's entry."""
        first, second = entry(Action.CREATE_KEY), entry(Action.CREATE_KEY)
        new, there = entry(Action.CREATE_TENANT), entry(Action.CREATE_TENANT)
        await store.access.add_key(KEY, audit=first, tenant_audit=new)
        await store.access.add_key(
            KEY._replace(id="ba9876543210"), audit=second, tenant_audit=there
        )
        assert await listed(store) == sorted([first, new, second], key=lambda each: each.id)

    async def test_entries_are_listed_newest_first_in_pages(self, store: Store) -> None:
        """Entries are listed newest first, page by page, for one tenant or for all."""
        made = []
        for number in range(6):
            made.append(entry(Action.UPDATE_TENANT, tenant=f"t{number % 2}"))
            await store.access.put_tenant(Tenant("acme"), audit=made[-1])
        first = await store.audit.list_entries(AuditFilter(limit=4))
        rest = await store.audit.list_entries(AuditFilter(before=first[-1].id, limit=4))
        assert [*first, *rest] == made[::-1]
        assert await store.audit.list_entries(AuditFilter("t1", limit=2)) == [made[5], made[3]]
        assert await store.audit.list_entries(AuditFilter("t1", before=made[3].id)) == [made[1]]
        assert await listed(store, since=made[2].id, before=made[4].id) == made[2:4]
        assert await listed(store, tenant="t0", since=made[2].id) == made[2::2]

    async def test_entries_are_found_by_what_they_say(self, store: Store) -> None:
        """Actor, action, resource and resource id filter alone and combined."""
        mine = entry(Action.UPDATE_TENANT, "acme", actor="cli")
        key = entry(Action.CREATE_KEY, "k1")
        gone = entry(Action.REVOKE_KEY, "k1", tenant="acme")
        for each in (mine, key, gone):
            await store.access.put_tenant(Tenant("acme"), audit=each)
        for tenant in (None, TENANT):
            assert await listed(store, tenant=tenant, actor="cli") == [mine]
            assert await listed(store, tenant=tenant, action=str(Action.CREATE_KEY)) == [key]
            assert await listed(store, tenant=tenant, actor="cli", resource_id="k1") == []
        assert await listed(store, resource=str(Resource.KEY)) == [key, gone]
        assert await listed(store, resource_id="k1", tenant="acme") == [gone]

    async def test_the_oldest_entries_are_deleted(self, store: Store) -> None:
        """`delete_entries` removes at most the given number of entries, across all tenants."""
        ids = [first_ulid_at(NOW + number) for number in range(5)]
        for number, id_ in enumerate(ids):
            old = entry(Action.UPDATE_TENANT, tenant=f"t{number % 2}", id=id_)
            await store.access.put_tenant(Tenant("acme"), audit=old)
        assert await store.audit.delete_entries(ids[4], 3) == 3
        assert await store.audit.delete_entries(ids[4], 3) == 1
        assert await store.audit.delete_entries(ids[4], 3) == 0
        assert [each.id for each in await listed(store)] == ids[4:]

    async def test_the_last_use_of_keys_is_kept(self, store: Store) -> None:
        """`last_used_at` changes at most once a minute, never moves back, and keeps the epoch."""
        other = KEY._replace(id="ba9876543210", tenant="other")
        await store.access.add_key(KEY)
        await store.access.add_key(other)
        epoch = (await store.access.get_state()).epoch

        async def last_used() -> list[int | None]:
            return [key.last_used_at for key in await store.access.list_keys()]

        assert await last_used() == [None, None]
        gone = KeyUse("acme", "000000000000", NOW)
        stranger = KeyUse("other", KEY.id, NOW)
        await store.access.touch_keys([KeyUse("acme", KEY.id, NOW), gone, stranger], MINUTE)
        assert await last_used() == [NOW, None]
        late = NOW + MINUTE
        uses = [KeyUse("acme", KEY.id, late - 1), KeyUse("other", other.id, late)]
        await store.access.touch_keys(uses, MINUTE)
        assert await last_used() == [NOW, late]
        await store.access.touch_keys([KeyUse("acme", KEY.id, late)], MINUTE)
        await store.access.touch_keys([KeyUse("other", other.id, NOW)], MINUTE)
        assert await last_used() == [late, late]
        await store.access.touch_keys([], MINUTE)
        found = await store.access.get_key(KEY.id)
        assert found is not None
        assert found[0].last_used_at == late
        assert (await store.access.get_state()).epoch == epoch
