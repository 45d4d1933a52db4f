"""SIGKILL between staging and publishing, and during publishing."""

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE

import pytest

from coatcheck.surfaces.ingest.index.base import Mode, document_id

from .conftest import IndexLocation
from .library import new_version

pytestmark = pytest.mark.anyio
DOCUMENT = document_id("ann", "docs", "a")


async def start(location: IndexLocation, version: str, what: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.surfaces.ingest.index.killed_publisher",
        json.dumps(location.settings()),
        version,
        what,
        stdout=PIPE,
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"staged\n"
    return process


async def kill(process: asyncio.subprocess.Process) -> None:
    process.kill()
    await process.wait()


# I03, I04
async def test_staged_passages_survive_a_crash(location: IndexLocation) -> None:
    async with location.library() as library:
        await library.put("a", "old part")
        version = new_version()
        await kill(await start(location, version, "wait"))
        assert await library.index.staged("ann", DOCUMENT, version) == set(range(300))
        for mode in Mode:
            assert {each.text for each in await library.search("part", mode)} == {"old part"}
        assert await library.publish("a", 300, version)
        assert {each.text[:8] for each in await library.search("part", k=100)} == {"new part"}


# I03
async def test_crash_while_publishing_leaves_one_whole_version(location: IndexLocation) -> None:
    async with location.library() as library:
        await library.put("a", "old part")
        for pause in (0.0, 0.01, 0.03, 0.08):
            version = new_version()
            process = await start(location, version, "publish")
            until = time.monotonic() + pause
            while time.monotonic() < until:
                await library.search("part", Mode.HYBRID, k=100)
            await kill(process)
            row = await library.index.document_by_id("ann", DOCUMENT)
            assert row is not None
            for mode in Mode:
                texts = {each.text for each in await library.search("part", mode, k=100)}
                assert len(texts) == min(100, row.passages)
                assert ("old part" in texts) == (row.passages == 1)
            staged = await library.index.staged("ann", DOCUMENT, version)
            assert len(staged) == (0 if row.version == version else 300)
            await library.put("a", "old part")
