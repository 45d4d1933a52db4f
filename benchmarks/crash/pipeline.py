"""The steps of the pipeline, the same for both engines. Standard library only.

Reading and embedding are cheap stand-ins, so that the cost of the engine shows. Every function
records its start with the time, so that repeated work can be counted. At the point that `crash-at`
names the process kills itself once: after the function has run and before it is recorded, which is
the worst moment.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import time
from pathlib import Path
from typing import TypeVar

BATCH = 64

T = TypeVar("T")


class Pipeline:
    """The step functions, in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def extract(self) -> str:
        """Read the document."""
        self._begin("extract")
        text = (self._folder / "document.txt").read_text()
        return self._done("extract", text)

    def chunk(self, text: str) -> list[str]:
        """Cut it into passages."""
        self._begin("chunk")
        return self._done("chunk", text.split("\n\n"))

    def embed(self, number: int, passages: list[str]) -> int:
        """Embed a batch of passages, and stage it."""
        name = f"embed {number}"
        self._begin(name)
        rows = [
            (number * BATCH + at, hashlib.sha256(passage.encode()).digest())
            for at, passage in enumerate(passages)
        ]
        with self._index() as index:
            index.executemany("INSERT OR REPLACE INTO staged VALUES (?, ?)", rows)
        return self._done(name, len(rows))

    def publish(self) -> int:
        """Publish the staged batches."""
        self._begin("publish")
        with self._index() as index:
            index.execute("INSERT OR REPLACE INTO passages SELECT * FROM staged")
            [count] = index.execute("SELECT count(*) FROM passages").fetchone()
        return self._done("publish", int(count))

    def _index(self) -> sqlite3.Connection:
        index = sqlite3.connect(self._folder / "index.db", timeout=30)
        index.execute("PRAGMA journal_mode = WAL")
        for table in ("staged", "passages"):
            index.execute(
                f"CREATE TABLE IF NOT EXISTS {table} (ordinal INTEGER PRIMARY KEY, vector BLOB)"
            )
        return index

    def _begin(self, name: str) -> None:
        with (self._folder / "begun.txt").open("a") as file:
            file.write(f"{time.time():.6f} {name}\n")

    def _done(self, name: str, value: T) -> T:
        point = self._folder / "crash-at"
        if point.exists() and point.read_text() == name:
            point.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return value


def batches_of(passages: list[str]) -> list[list[str]]:
    """Return the passages in batches."""
    return [passages[start : start + BATCH] for start in range(0, len(passages), BATCH)]
