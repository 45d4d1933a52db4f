"""Documents are published, replaced and deleted, and a search never sees an intermediate state."""

import asyncio

import numpy as np
import pytest

from coatcheck.errors import InvalidInput, NotFound
from coatcheck.surfaces.ingest.index.base import (
    EmbedderMismatch,
    Mode,
    StagedGone,
    check_embedder,
    document_id,
)
from coatcheck.surfaces.ingest.index.passages import passage_key

from .conftest import IndexLocation
from .library import (
    DIMENSIONS,
    EMBEDDER,
    T0,
    Library,
    chunks_of,
    document_vectors,
    new_version,
    vector_of,
)

pytestmark = pytest.mark.anyio
EVERY_MODE = list(Mode)


async def test_published_document_is_found(library: Library) -> None:
    document = await library.put("river.txt", "the river floods", "a dam holds", now=T0 + 5)
    [found, *_] = await library.search("dam", Mode.HYBRID)
    assert (found.text, found.ordinal, found.start, found.end) == ("a dam holds", 1, 10, 21)
    assert (found.document_id, found.name, found.title) == (document, "river.txt", "River.Txt")
    assert found.headings == ()
    row = await library.index.document("ann", "docs", "river.txt")
    assert row is not None
    assert row == await library.index.document_by_id("ann", document)
    assert (row.passages, row.embedder, row.format, row.language) == (2, EMBEDDER, "text", "en")
    assert (row.created_at, row.updated_at) == (T0 + 5, T0 + 5)
    [collection] = await library.index.collections("ann")
    assert collection == await library.index.collection("ann", "docs")
    assert (collection.documents, collection.passages) == (1, 2)
    assert (collection.embedder, collection.dimensions) == (EMBEDDER, DIMENSIONS)


async def test_headings_are_searchable_but_not_part_of_the_text(library: Library) -> None:
    chunk = chunks_of(["the pump runs at night"])[0]
    chunk = chunk.model_copy(update={"headings": ("Maintenance", "Köhler units"), "page": 3})
    version = new_version()
    await library.index.stage(
        "ann", document_id("ann", "docs", "m"), version, [chunk], document_vectors(["x"]), T0
    )
    await library.publish("m", 1, version)
    [found] = await library.search("kohler")
    assert (found.text, found.page) == ("the pump runs at night", 3)
    assert found.headings == ("Maintenance", "Köhler units")


@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_staged_passages_are_not_found(library: Library, mode: Mode) -> None:
    await library.put("old", "apples")
    await library.stage("new", ["apples and pears"], new_version())
    assert await library.names("apples", mode) == {"old"}
    assert await library.index.document("ann", "docs", "new") is None


async def test_staging_is_idempotent(library: Library) -> None:
    version = new_version()
    await library.stage("a", ["one", "two"], version)
    await library.stage("a", ["two again", "three"], version, first=1)
    assert await library.index.staged("ann", document_id("ann", "docs", "a"), version) == {0, 1, 2}
    assert await library.publish("a", 3, version)
    assert {found.text for found in await library.search("one two three again")} == {
        "one",
        "two again",
        "three",
    }
    assert await library.index.staged("ann", document_id("ann", "docs", "a"), version) == set()


@pytest.mark.parametrize("mode", EVERY_MODE)
async def test_new_version_replaces_the_old_one(library: Library, mode: Mode) -> None:
    await library.put("a", "quartz vein", "quartz seam", metadata={"by": "x"}, now=T0)
    document = await library.put("a", "basalt flow", metadata={"by": "y"}, now=T0 + 9)
    assert {found.text for found in await library.search("quartz basalt", mode)} == {"basalt flow"}
    row = await library.index.document_by_id("ann", document)
    assert row is not None
    assert (row.passages, row.metadata, row.created_at, row.updated_at) == (
        1,
        {"by": "y"},
        T0,
        T0 + 9,
    )


async def test_publishing_is_idempotent(library: Library) -> None:
    version = new_version()
    await library.stage("a", ["one"], version)
    assert await library.publish("a", 1, version)
    # The response was lost, and the step runs again.
    await library.stage("a", ["one"], version)
    assert await library.publish("a", 1, version, now=T0 + 7)
    [found] = await library.search("one")
    row = await library.index.document_by_id("ann", found.document_id)
    assert row is not None
    assert row.updated_at == T0
    assert await library.index.sweep(T0 + 10**9) == 0


async def test_later_version_wins_in_any_order(library: Library) -> None:
    earlier, later = new_version(), new_version()
    await library.stage("a", ["from earlier"], earlier)
    await library.put("a", "from later", version=later)
    assert not await library.publish("a", 1, earlier)
    assert [found.text for found in await library.search("from")] == ["from later"]
    assert await library.index.staged("ann", document_id("ann", "docs", "a"), earlier) == set()


@pytest.mark.parametrize("ordinals", [[], [0, 1], [0, 1, 3], [0, 1, 2, 3]])
async def test_incomplete_version_is_not_published(library: Library, ordinals: list[int]) -> None:
    await library.put("a", "the old one")
    version = new_version()
    for ordinal in ordinals:
        await library.stage("a", ["the new one"], version, first=ordinal)
    with pytest.raises(StagedGone, match=f"{len(ordinals)} of 3"):
        await library.publish("a", 3, version)
    assert [found.text for found in await library.search("one")] == ["the old one"]


async def test_document_without_passages_can_be_published(library: Library) -> None:
    await library.put("a", "something")
    document = await library.put("a")
    row = await library.index.document_by_id("ann", document)
    assert row is not None
    assert row.passages == 0
    for mode in EVERY_MODE:
        assert await library.search("something", mode) == []


async def test_search_sees_one_whole_version_during_publish(library: Library) -> None:
    versions = [[f"common v{number} p{part}" for part in range(12)] for number in range(12)]
    await library.put("a", *versions[0])
    done = asyncio.Event()

    async def replace() -> None:
        for texts in versions[1:]:
            await library.put("a", *texts)
        done.set()

    seen: set[str] = set()

    async def read() -> None:
        while not done.is_set():
            for mode in EVERY_MODE:
                found = await library.search("common", mode, k=50)
                assert len(found) == 12
                [version] = {each.text.split()[1] for each in found}
                seen.add(version)

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        group.create_task(replace())
        group.create_task(read())
    assert len(seen) > 1


async def test_deleting_the_last_document_deletes_its_collection(library: Library) -> None:
    first = await library.put("a", "sparrow")
    second = await library.put("b", "sparrow hawk")
    assert await library.index.delete("ann", first)
    assert not await library.index.delete("ann", first)
    for mode in EVERY_MODE:
        assert await library.names("sparrow", mode) == {"b"}
    assert await library.index.delete("ann", second)
    assert await library.index.collections("ann") == []
    assert await library.index.collection("ann", "docs") is None
    with pytest.raises(NotFound):
        await library.search("sparrow")
    await library.put("c", "wren")
    assert await library.names("wren sparrow", Mode.HYBRID) == {"c"}


async def test_tenants_are_isolated(library: Library) -> None:
    of_ann = await library.put("a", "secret plans")
    of_bob = await library.put("a", "open plans", tenant="bob")
    assert of_ann != of_bob
    for mode in EVERY_MODE:
        assert {f.text for f in await library.search("plans", mode)} == {"secret plans"}
        assert {f.text for f in await library.search("plans", mode, tenant="bob")} == {"open plans"}
        with pytest.raises(NotFound):
            await library.search("plans", mode, tenant="eve")
    assert await library.index.document_by_id("bob", of_ann) is None
    assert not await library.index.delete("bob", of_ann)
    assert not await library.index.update_metadata("bob", of_ann, {"x": "y"})
    assert await library.index.documents("eve", "docs") == []
    assert await library.index.collections("eve") == []
    # A tenant can neither discard nor see staged passages of another.
    version = new_version()
    await library.stage("b", ["more"], version)
    await library.index.discard("bob", document_id("ann", "docs", "b"), version)
    assert await library.index.staged("bob", document_id("ann", "docs", "b"), version) == set()
    assert await library.publish("b", 1, version)


async def test_collections_are_isolated(library: Library) -> None:
    await library.put("a", "shared word", collection="one")
    await library.put("a", "shared word again", collection="two")
    for mode in EVERY_MODE:
        [found] = await library.search("shared", mode, collection="one")
        assert found.text == "shared word"
    assert [row.name for row in await library.index.collections("ann")] == ["one", "two"]


async def test_collection_rejects_another_embedder(library: Library) -> None:
    await library.put("a", "first")
    version = new_version()
    await library.stage("b", ["second"], version)
    for embedder, dimensions in (("another", DIMENSIONS), (EMBEDDER, DIMENSIONS + 1)):
        with pytest.raises(EmbedderMismatch, match="words-of-tests"):
            await library.publish("b", 1, version, embedder=embedder, dimensions=dimensions)
        with pytest.raises(EmbedderMismatch):
            check_embedder(await library.index.collection("ann", "docs"), embedder, dimensions)
    assert await library.index.document("ann", "docs", "b") is None
    check_embedder(await library.index.collection("ann", "docs"), EMBEDDER, DIMENSIONS)
    check_embedder(await library.index.collection("ann", "new"), "any", 3)
    with pytest.raises(EmbedderMismatch):
        await library.search("first", Mode.HYBRID, embedder="another")
    assert await library.names("first", Mode.TEXT, embedder="another") == {"a"}
    assert await library.publish("b", 1, version)


async def test_vectors_of_another_length_are_rejected(library: Library) -> None:
    version = new_version()
    await library.stage("a", ["text"], version)
    with pytest.raises(InvalidInput, match="do not have 25 dimensions"):
        await library.publish("a", 1, version, dimensions=DIMENSIONS + 1)
    assert await library.index.collections("ann") == []


async def test_sweep_deletes_old_staged_passages(library: Library) -> None:
    old, fresh = new_version(), new_version()
    await library.stage("a", ["one", "two"], old, now=T0)
    await library.stage("a", ["three"], fresh, now=T0 + 1000)
    assert await library.index.sweep(T0 + 1000) == 2
    assert await library.index.staged("ann", document_id("ann", "docs", "a"), old) == set()
    with pytest.raises(StagedGone):
        await library.publish("a", 2, old)
    assert await library.publish("a", 1, fresh)


async def test_discard_deletes_staged_passages(library: Library) -> None:
    version = new_version()
    await library.stage("a", ["one"], version)
    await library.index.discard("ann", document_id("ann", "docs", "a"), version)
    assert await library.index.staged("ann", document_id("ann", "docs", "a"), version) == set()


async def test_documents_are_listed_by_name_with_a_cursor(library: Library) -> None:
    for name in ("b", "c", "a", "B", "ä"):
        await library.put(name, name)
    first = await library.index.documents("ann", "docs", limit=2)
    assert [row.name for row in first] == ["B", "a"]
    rest = await library.index.documents("ann", "docs", after="a")
    assert [row.name for row in rest] == ["b", "c", "ä"]


async def test_metadata_can_be_updated(library: Library) -> None:
    document = await library.put("a", "text", metadata={"team": "red"})
    assert await library.index.update_metadata("ann", document, {"team": "blue"})
    assert await library.names("text", only={"team": "red"}) == set()
    [found] = await library.search("text", only={"team": "blue"})
    assert found.metadata == {"team": "blue"}
    assert not await library.index.update_metadata("ann", "0" * 26, {})


async def test_index_can_be_reopened(location: IndexLocation) -> None:
    async with location.library() as library:
        await library.put("a", "granite")
        version = new_version()
        await library.stage("b", ["granite too"], version)
    async with location.library() as library:
        assert await library.names("granite", Mode.HYBRID) == {"a"}
        assert await library.publish("b", 1, version)
        assert await library.names("granite", Mode.HYBRID) == {"a", "b"}


async def test_concurrent_first_open(location: IndexLocation) -> None:
    async def put(name: str) -> None:
        async with location.library() as library:
            await library.put(name, "opened")

    async with asyncio.TaskGroup() as group:
        for name in "abcd":
            group.create_task(put(name))
    async with location.library() as library:
        assert await library.names("opened") == set("abcd")


async def test_document_vectors_are_keyed_by_text_and_headings(library: Library) -> None:
    texts = ("gneiss and schist", "slate \0 roof", "")  # nothing is embedded for the last one
    document = await library.put("a", *texts)
    await library.put("b", "marble")
    found = await library.index.vectors("ann", document)
    expected = {("gneiss and schist", "[]"), ("slate \ufffd roof", "[]")}
    assert set(found) == expected == {passage_key(each) for each in chunks_of(texts[:2])}
    vector = vector_of(texts[0])
    assert np.allclose(found["gneiss and schist", "[]"], vector / np.linalg.norm(vector), atol=1e-6)
    assert await library.index.vectors("bob", document) == {}
    assert await library.index.vectors("ann", "none") == {}
