"""Deleted and replaced texts leave no bytes on disk."""

from pathlib import Path

import pytest

from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex

from .library import Library, new_version

pytestmark = pytest.mark.anyio


def files_with(folder: Path, word: str) -> list[str]:
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes()]


async def test_deleted_and_replaced_texts_leave_no_bytes(tmp_path: Path) -> None:
    async with SQLiteIndex(tmp_path / "jobs-search.db") as index:
        library = Library(index)
        words = [f"filler{number}" for number in range(50)]
        await library.put("other", " ".join(words))
        document = await library.put(
            "a", *(f"zanzibar{n} and {' '.join(words)}" for n in range(40))
        )
        assert files_with(tmp_path, "zanzibar")
        await library.put("a", "quetzal")
        assert files_with(tmp_path, "zanzibar") == []
        assert files_with(tmp_path, "quetzal")
        await index.delete("ann", document)
        assert files_with(tmp_path, "quetzal") == []
        version = new_version()
        await library.stage("b", ["xylophone"], version)
        await library.publish("b", 1, version)
        await index.delete("ann", (await library.search("xylophone"))[0].document_id)
        assert files_with(tmp_path, "xylophone") == []
