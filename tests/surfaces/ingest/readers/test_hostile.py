"""No document takes a reader or the chunker more CPU time than its size allows."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from coatcheck.surfaces.ingest.chunker import chunk
from coatcheck.surfaces.ingest.readers import UnreadableDocument, detect, office, read, reader
from tests.codegraph.cpu_limit import BASE_S, within

from .hostile import SAMPLES, Sample

# CPU time, because the processor may be busy with other work.
pytestmark = pytest.mark.timeout(600)

S_A_KB = 0.03
# For Office files, per unpacked KB.
S_A_KB_UNPACKED = 0.005


def seconds_for(content: bytes) -> float:
    if not content.startswith(b"PK"):
        return BASE_S + S_A_KB * len(content) / 1024
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(info.file_size for info in archive.infolist())
    return BASE_S + S_A_KB_UNPACKED * unpacked / 1024


def read_and_chunk(path: Path, name: str) -> str:
    """Return the detected format of a document, or the error code."""
    try:
        extracted = read(path, name)
    except UnreadableDocument as error:
        return error.code
    chunk(extracted)
    return extracted.format


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{sample.format}: {sample.name}" for sample in SAMPLES]
)
def test_cpu_time_is_bounded_by_the_size(sample: Sample, tmp_path: Path) -> None:
    content = sample.build()
    path = tmp_path / "content"
    path.write_bytes(content)
    found = within(seconds_for(content), read_and_chunk, path, sample.file)
    # A rejected document is rejected for its content, not because a reader crashed.
    assert found in (sample.format, "document-hostile", "document-no-text")


def test_every_format_has_hostile_samples() -> None:
    formats = {
        "code",
        *reader._FILES,
        *detect._BY_ENDING.values(),
        *detect._BY_MEDIA_TYPE.values(),
        *office._FOLDERS.values(),
    }
    assert {sample.format for sample in SAMPLES} == formats
