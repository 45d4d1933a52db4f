"""Fixtures of an engine whose blob store can be made unavailable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coatcheck import App
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.files import FileBucket
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.errors import BlobStoreUnavailable
from coatcheck.model.payload import INLINE_BYTES
from coatcheck.store.base import Store

from .conftest import SETTINGS

LARGE = "ä" * INLINE_BYTES


ONE_PROCESS = replace(SETTINGS, processes=1)


class Clock(SystemClock):
    """The real clock, set ahead by a test."""

    ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


class Switch(FileBucket):
    """A folder that a test can make unavailable."""

    away = False

    def _check(self) -> None:
        if self.away:
            raise BlobStoreUnavailable("away")

    def put(self, key: str, pieces: object) -> None:
        self._check()
        super().put(key, pieces)  # type: ignore[arg-type]

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        self._check()
        return super().get(key, start, stop)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "blobs"


@pytest.fixture
def bucket(folder: Path) -> Switch:
    return Switch(folder)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(app: App, store: Store, bucket: Switch, clock: Clock) -> Iterator[Engine]:
    async def at_once(_seconds: float) -> None:
        return

    blobs = Blobs(bucket, sleep=at_once)
    yield Engine(store, app.kinds, clock, blobs=blobs)
    blobs.close()


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def is_empty(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())
