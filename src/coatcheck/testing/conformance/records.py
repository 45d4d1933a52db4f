"""Conformance tests for records: versions, expiry and order."""

from __future__ import annotations

from dataclasses import replace

from coatcheck.model.record import Record
from coatcheck.store.base import Store
from coatcheck.testing.conformance.arrange import NOW, Conformance


def record(key: str = "logo", value: str = '"v"', **fields: int | str | None) -> Record:
    """Return a record that is not written yet."""
    new = Record("acme", "assets", key, value, version=0, updated_at=NOW)
    return replace(new, **fields)  # type: ignore[arg-type]  # named fields of any of its types


class RecordConformance(Conformance):
    """Tests for `put_record`, `get_record`, `list_records`, `count_records` and `delete_record`."""

    async def test_a_document_is_written_and_read(self, store: Store) -> None:
        """A new record is stored with version 1."""
        written = await store.records.put_record(record(value='{"svg":"größe"}'))
        assert written == record(value='{"svg":"größe"}', version=1)
        assert await store.records.get_record("acme", "assets", "logo", NOW) == written

    async def test_every_write_raises_the_version(self, store: Store) -> None:
        """Each write increments the stored version, whatever version the written record carries."""
        for n in range(1, 4):
            written = await store.records.put_record(
                record(value=str(n), updated_at=NOW + n, version=77)
            )
            assert written == record(value=str(n), updated_at=NOW + n, version=n)
            assert await store.records.get_record("acme", "assets", "logo", NOW) == written

    async def test_a_document_that_must_not_exist(self, store: Store) -> None:
        """A write that expects version 0 succeeds only if the record does not exist."""
        assert await store.records.put_record(record(value="1"), expected_version=0) is not None
        assert await store.records.put_record(record(value="2"), expected_version=0) is None
        found = await store.records.get_record("acme", "assets", "logo", NOW)
        assert found is not None
        assert (found.value, found.version) == ("1", 1)

    async def test_a_document_that_must_be_the_one_that_was_read(self, store: Store) -> None:
        """A write that expects an outdated version returns None and changes nothing."""
        await store.records.put_record(record(value="1"))
        await store.records.put_record(record(value="2"), expected_version=1)
        for wrong in (1, 3, 0):
            assert await store.records.put_record(record(value="3"), expected_version=wrong) is None
        found = await store.records.get_record("acme", "assets", "logo", NOW)
        assert found is not None
        assert (found.value, found.version) == ("2", 2)

    async def test_a_version_of_a_document_that_is_not_there(self, store: Store) -> None:
        """A write that expects a version of a missing record returns None."""
        assert await store.records.put_record(record(), expected_version=1) is None
        assert await store.records.get_record("acme", "assets", "logo", NOW) is None

    async def test_a_collection_is_counted_up_to_a_bound(self, store: Store) -> None:
        """Counting stops at the bound and ignores expired records and other collections."""
        for key in "abc":
            await store.records.put_record(record(key=key))
        await store.records.put_record(record(key="d", expires_at=NOW + 10))
        await store.records.put_record(record(key="e", tenant="other"))
        await store.records.put_record(record(key="f", collection="others"))
        assert await store.records.count_records("acme", "assets", NOW + 9, 100) == 4
        assert await store.records.count_records("acme", "assets", NOW + 10, 100) == 3
        assert await store.records.count_records("acme", "assets", NOW, 2) == 2
        assert await store.records.count_records("acme", "nothing", NOW, 2) == 0

    async def test_an_expired_document_counts_as_absent(self, store: Store) -> None:
        """From its expiry on, a record is absent for readers and writers."""
        written = await store.records.put_record(record(expires_at=NOW + 10))
        assert await store.records.get_record("acme", "assets", "logo", NOW + 9) == written
        assert await store.records.get_record("acme", "assets", "logo", NOW + 10) is None
        assert await store.records.list_records("acme", "assets", NOW + 9) == [written]
        assert await store.records.list_records("acme", "assets", NOW + 10) == []

        later = record(value="2", updated_at=NOW + 10)
        assert await store.records.put_record(later, expected_version=1) is None
        again = await store.records.put_record(later, expected_version=0)
        assert again is not None
        assert (again.value, again.expires_at) == ("2", None)
        assert await store.records.get_record("acme", "assets", "logo", NOW + 99) == again

    async def test_a_document_that_has_not_expired_is_there(self, store: Store) -> None:
        """Until its expiry, a record exists and cannot be created again."""
        await store.records.put_record(record(expires_at=NOW + 10))
        early = record(value="2", updated_at=NOW + 9)
        assert await store.records.put_record(early, expected_version=0) is None
        assert await store.records.put_record(early, expected_version=1) is not None

    async def test_a_document_is_deleted(self, store: Store) -> None:
        """A deleted record is absent and can be created again."""
        await store.records.put_record(record())
        assert await store.records.delete_record("acme", "assets", "logo") is True
        assert await store.records.get_record("acme", "assets", "logo", NOW) is None
        assert await store.records.delete_record("acme", "assets", "logo") is False
        assert await store.records.put_record(record(), expected_version=0) is not None

    async def test_a_collection_is_listed_by_key_and_in_pages(self, store: Store) -> None:
        """Records are sorted by key, and `after` continues behind the last key of a page."""
        keys = [f"key-{n:03}" for n in range(25)]
        for key in reversed(keys):
            await store.records.put_record(record(key))
        seen: list[str] = []
        for _ in range(4):
            after = seen[-1] if seen else ""
            page = await store.records.list_records("acme", "assets", NOW, after=after, limit=10)
            assert len(page) <= 10
            seen.extend(one.key for one in page)
        assert seen == keys

    async def test_a_page_is_full_even_when_some_have_expired(self, store: Store) -> None:
        """Expired records do not count towards the limit of a page."""
        for n in range(10):
            await store.records.put_record(
                record(f"key-{n}", expires_at=NOW + 1 if n % 2 else None)
            )
        found = await store.records.list_records("acme", "assets", NOW + 5, limit=4)
        assert [one.key for one in found] == ["key-0", "key-2", "key-4", "key-6"]

    async def test_a_collection_is_counted_and_skipped_into(self, store: Store) -> None:
        """Expired records are neither counted nor skipped by `offset`."""
        for n in range(10):
            await store.records.put_record(
                record(f"key-{n}", expires_at=NOW + 1 if n % 2 else None)
            )
        await store.records.put_record(record("other", tenant="umbrella"))
        assert await store.records.count_records("acme", "assets", NOW, 100) == 10
        assert await store.records.count_records("acme", "assets", NOW + 5, 100) == 5
        assert await store.records.count_records("acme", "nothing", NOW, 100) == 0
        page = await store.records.list_records("acme", "assets", NOW + 5, limit=2, offset=2)
        assert [one.key for one in page] == ["key-4", "key-6"]
        after = await store.records.list_records(
            "acme", "assets", NOW + 5, "key-4", limit=5, offset=1
        )
        assert [one.key for one in after] == ["key-8"]
        assert await store.records.list_records("acme", "assets", NOW + 5, limit=2, offset=5) == []

    async def test_tenants_and_collections_are_apart(self, store: Store) -> None:
        """The same key can exist in several tenants and collections independently."""
        places = [("acme", "assets"), ("acme", "cache"), ("umbrella", "assets")]
        for tenant, collection in places:
            value = f'"{tenant}/{collection}"'
            new = record(value=value, tenant=tenant, collection=collection)
            assert await store.records.put_record(new, expected_version=0) is not None
        await store.records.delete_record("umbrella", "assets", "logo")
        for tenant, collection in places[:2]:
            [found] = await store.records.list_records(tenant, collection, NOW)
            assert found.value == f'"{tenant}/{collection}"'
        assert await store.records.list_records("umbrella", "assets", NOW) == []
        assert await store.records.get_record("umbrella", "assets", "logo", NOW) is None
