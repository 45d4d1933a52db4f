"""What a process that reads documents keeps from job to job."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from coatcheck.errors import Fail
from coatcheck.settings import Settings
from coatcheck.surfaces.ingest.embedding.settings import EmbeddingSettings
from coatcheck.surfaces.ingest.index.base import Index
from coatcheck.surfaces.ingest.kept import kept_open

pytestmark = pytest.mark.anyio

OFFLINE = EmbeddingSettings()


async def is_closed(index: Index) -> bool:
    try:
        await index.collections("default")
    except RuntimeError:  # no thread takes it
        return True
    return False


async def test_the_next_job_has_what_the_one_before_had(settings: Settings) -> None:
    async with kept_open(settings, OFFLINE) as first:
        pass
    async with kept_open(settings, OFFLINE) as second:
        assert second[0] is first[0]
        assert second[1] is first[1]
        assert await second[0].collections("default") == []


async def test_a_job_that_fails_lets_go_of_it(settings: Settings) -> None:
    with pytest.raises(KeyError):
        async with kept_open(settings, OFFLINE) as (first, _):
            raise KeyError
    assert await is_closed(first)
    async with kept_open(settings, OFFLINE) as (second, _):
        assert second is not first
        assert not await is_closed(second)


async def test_but_not_while_another_has_it(settings: Settings) -> None:
    async with kept_open(settings, OFFLINE) as (first, _):
        with pytest.raises(KeyError):
            async with kept_open(settings, OFFLINE) as (same, _):
                raise KeyError
        assert same is first
        assert not await is_closed(first)
    assert await is_closed(first)


async def test_other_settings_open_another(settings: Settings, tmp_path: Path) -> None:
    async with kept_open(settings, OFFLINE) as (first, _):
        pass
    other = replace(settings, database=f"sqlite:///{tmp_path}/other.db")
    async with kept_open(other, OFFLINE) as (second, _):
        assert second is not first
        assert await is_closed(first)


async def test_settings_that_make_no_sense_fail_the_job(settings: Settings) -> None:
    nowhere = replace(settings, database="mysql://host/db")
    with pytest.raises(Fail, match="SQLite or PostgreSQL"):
        async with kept_open(nowhere, OFFLINE):
            pass


def test_it_is_closed_with_its_loop(settings: Settings) -> None:
    async def job() -> Index:
        async with kept_open(settings, OFFLINE) as (index, _):
            return index

    with asyncio.Runner() as runner:
        index = runner.run(job())
        assert runner.run(job()) is index
        assert not runner.run(is_closed(index))
    with asyncio.Runner() as runner:
        assert runner.run(is_closed(index))
