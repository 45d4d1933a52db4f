"""Disk calibration: the baseline for all other measures.

Absolute numbers depend on how long a sync of the disk takes, which differs between machines and
between days. Ratios within one run do not, as long as every system syncs.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

BLOCK = b"x" * 4096
_INSERT = "INSERT INTO jobs (data) VALUES ('{}')"


def calibrate(under: Path, seconds: float) -> dict[str, float]:
    """Measure syncs and single-row commits on the file system the databases will be on."""
    with tempfile.TemporaryDirectory(prefix="calibration-", dir=under) as folder:
        return {
            "fdatasync_per_second": _syncs(Path(folder) / "syncs", seconds),
            "sqlite_commits_per_second": _commits(Path(folder) / "raw.db", seconds),
        }


def syncs_per_second(under: Path, seconds: float) -> float:
    """Measure syncs alone; quick enough to repeat before every run."""
    with tempfile.TemporaryDirectory(prefix="calibration-", dir=under) as folder:
        return _syncs(Path(folder) / "syncs", seconds)


def commits_per_second(under: Path, seconds: float) -> float:
    """Return how many single-row transactions per second SQLite commits there."""
    with tempfile.TemporaryDirectory(dir=under) as folder:
        return _commits(Path(folder) / "calibration.db", seconds)


def commit_milliseconds(under: Path, rate: float, seconds: float) -> list[float]:
    """Time single-row commits on a fixed schedule, each from the time it was due."""
    with tempfile.TemporaryDirectory(dir=under) as folder, _raw(Path(folder) / "raw.db") as raw:
        start = time.monotonic()
        taken = []
        for number in range(round(rate * seconds)):
            due = start + number / rate
            time.sleep(max(0.0, due - time.monotonic()))
            raw.execute(_INSERT)
            taken.append((time.monotonic() - due) * 1000)
        return taken


def _syncs(path: Path, seconds: float) -> float:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        return _rate(lambda: _write_and_sync(descriptor), seconds)
    finally:
        os.close(descriptor)


def _write_and_sync(descriptor: int) -> None:
    os.write(descriptor, BLOCK)
    os.fdatasync(descriptor)


def _commits(path: Path, seconds: float) -> float:
    with _raw(path) as connection:
        return _rate(lambda: connection.execute(_INSERT), seconds)


@contextlib.contextmanager
def _raw(path: Path) -> Iterator[apsw.Connection]:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, data TEXT)")
        yield connection


def _rate(action: Any, seconds: float) -> float:
    start = time.monotonic()
    count = 0
    while time.monotonic() - start < seconds:
        action()
        count += 1
    return count / (time.monotonic() - start)
