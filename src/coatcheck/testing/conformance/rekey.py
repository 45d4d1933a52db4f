"""Conformance tests for rekeying: texts are listed in order and replaced only if unchanged."""

from __future__ import annotations

from coatcheck.model.payload import NOBODY, BlobName
from coatcheck.model.record import Record
from coatcheck.store.base import Store
from coatcheck.store.rekey import TextChange
from coatcheck.testing.conformance.arrange import NOW, TENANT, Conformance
from coatcheck.testing.conformance.blobs import LATER

ALL, NONE = "", "\x01 this is nowhere"


class RekeyConformance(Conformance):
    """Tests for `columns`, `find_texts`, `replace_texts`, `list_blobs` and `has_blob`."""

    async def test_texts_are_read_in_slices_and_replaced(self, store: Store) -> None:
        """Texts are read in pages, and a text that has changed since the read is not replaced."""
        for key in ("a", "b", "c"):
            await store.records.put_record(Record(TENANT, "words", key, f'"{key}"', 0, NOW))
        [place] = [each for each in store.rekey.columns if each.table == "records"]
        first = await store.rekey.find_texts(place, ALL, NONE, None, 2)
        rest = await store.rekey.find_texts(place, ALL, NONE, first[-1].key, 2)
        assert [text.key for text in (*first, *rest)] == [
            (TENANT, "words", key) for key in ("a", "b", "c")
        ]
        found = [*first, *rest]
        changes = [TextChange(text.key, text.text, text.text + " ") for text in found]
        changes[1] = changes[1]._replace(old="something else")
        assert await store.rekey.replace_texts(place, changes) == 2
        now = await store.rekey.find_texts(place, ALL, NONE, None, 9)
        assert [text.text for text in now] == [
            found[0].text + " ",
            found[1].text,
            found[2].text + " ",
        ]
        assert await store.rekey.find_texts(place, ALL, found[0].text, None, 9) == now[1:]
        assert await store.rekey.find_texts(place, found[1].text, NONE, None, 9) == [now[1]]

    async def test_every_place_can_be_looked_at(self, store: Store) -> None:
        """Every encrypted column can be listed from the start and after a key."""
        for place in store.rekey.columns:
            numbers = {"seq", "number"}
            after = tuple(0 if column in numbers else "x" for column in place.key)
            assert await store.rekey.find_texts(place, ALL, NONE, None, 1) == []
            assert await store.rekey.find_texts(place, ALL, NONE, after, 1) == []
            assert await store.rekey.replace_texts(place, [TextChange(after, "x", "y")]) == 0

    async def test_blobs_are_listed_but_for_those_that_are_being_removed(
        self, store: Store
    ) -> None:
        """Blobs being removed are not listed; a blob that a job took over is still found."""
        blobs = [BlobName(TENANT, job, f"{job}/{key}") for job in ("a", "b") for key in "xy"]
        for blob in (*blobs, BlobName(TENANT, NOBODY, "upload")):
            await store.files.reserve_blob(blob, LATER)
        upload, *others = await store.rekey.list_blobs(None, 9)
        assert (upload.key, others) == ("upload", blobs)
        assert await store.rekey.list_blobs(blobs[0], 2) == blobs[1:3]
        assert await store.rekey.has_blob(blobs[0])
        assert await store.rekey.has_blob(upload)
        assert not await store.rekey.has_blob(blobs[0]._replace(job_id="other"))
        assert await store.rekey.has_blob(blobs[0]._replace(job_id=NOBODY))
        await store.files.start_blob_removal(LATER, 9)
        assert await store.rekey.list_blobs(None, 9) == []
        assert not await store.rekey.has_blob(blobs[0])
