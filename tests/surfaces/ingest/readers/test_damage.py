"""Documents with random damage are read, or rejected with a reason."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck.surfaces.ingest.chunker import chunk
from coatcheck.surfaces.ingest.readers import UnreadableDocument, read

from .documents import LINE, PAGE, email_message, fill_slides, pdf, slides, word, workbook

DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "pdf": lambda: pdf(LINE * 5, None, "Three", outline={"Three": 0}),
    "docx": lambda: word(lambda document: document.add_heading("Title", 1)),
    "pptx": lambda: slides(fill_slides),
    "xlsx": lambda: workbook({"A": [("a", 1), ("b", 2)], "B": [("c",)]}),
    "html": PAGE.encode,
    "eml": lambda: email_message("Alle Mäntel", "<p>The same").as_bytes(),
}


def damaged(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 3, 20))):
        at = chance.randrange(len(changed))
        length = chance.randrange(1, 50)
        match chance.randrange(3):
            case 0:
                changed[at] = chance.randrange(256)
            case 1:
                changed[at:at] = changed[at : at + length]
            case _:
                changed[at : at + length] = chance.randbytes(4)
    return bytes(changed)


def damaged_within(content: bytes, chance: random.Random) -> bytes:
    """Return a valid Office archive with a damaged part."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        parts = [name for name in old.namelist() if name.endswith((".xml", ".rels"))]
        broken = chance.choice(parts)
        for name in old.namelist():
            part = old.read(name)
            new.writestr(name, damaged(part, chance) if name == broken else part)
    return made.getvalue()


@pytest.mark.filterwarnings("ignore")  # openpyxl warns about parts it skips
@pytest.mark.parametrize("ending", DOCUMENTS)
def test_damaged_document_is_read_or_rejected(tmp_path: Path, ending: str) -> None:
    path, content, chance = tmp_path / "file", DOCUMENTS[ending](), random.Random(ending)
    for turn in range(30):
        within = ending in ("docx", "pptx", "xlsx") and turn % 2
        path.write_bytes((damaged_within if within else damaged)(content, chance))
        try:
            chunk(read(path, f"file.{ending}"))
        except UnreadableDocument as error:
            assert error.code.startswith("document-")
