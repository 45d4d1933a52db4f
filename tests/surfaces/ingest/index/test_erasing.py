"""What is deleted or replaced is not on the disk any more."""

from pathlib import Path

import pytest

from coatcheck.surfaces.ingest.index.sqlite.index import SQLiteIndex

from .library import Library, new_version

pytestmark = pytest.mark.anyio


def kept(folder: Path, word: str) -> list[str]:
    return [file.name for file in folder.iterdir() if word.encode() in file.read_bytes()]


async def test_no_byte_of_a_deleted_or_replaced_text_is_left(tmp_path: Path) -> None:
    async with SQLiteIndex(tmp_path / "jobs-search.db") as index:
        library = Library(index)
        words = [f"filler{number}" for number in range(50)]
        await library.put("other", " ".join(words))
        document = await library.put(
            "a", *(f"zanzibar{n} and {' '.join(words)}" for n in range(40))
        )
        assert kept(tmp_path, "zanzibar")
        await library.put("a", "quetzal")
        assert kept(tmp_path, "zanzibar") == []
        assert kept(tmp_path, "quetzal")
        await index.delete("ann", document)
        assert kept(tmp_path, "quetzal") == []
        version = new_version()
        await library.stage("b", ["xylophone"], version)
        await library.publish("b", 1, version)
        await index.delete("ann", (await library.search("xylophone"))[0].document_id)
        assert kept(tmp_path, "xylophone") == []
