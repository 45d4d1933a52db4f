"""While ten thousand jobs come in as one batch, single submits get through between its slices."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from coatcheck.store.sqlite.operation import Urgency
from coatcheck.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.anyio

SINGLES = 20


async def test_single_submits_are_committed_between_the_slices_of_a_batch(
    http: httpx2.AsyncClient, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    batch_began = asyncio.Event()
    write = store._writer.write

    def noted(operation: Any, urgency: Urgency, merges: Any = None) -> asyncio.Future[Any]:
        def note(_future: asyncio.Future[Any]) -> None:
            commits.append("slice" if urgency is Urgency.BULK else "single")
            batch_began.set()

        future = write(operation, urgency, merges)
        future.add_done_callback(note)
        return future

    monkeypatch.setattr(store._writer, "write", noted)
    batch = asyncio.create_task(
        http.post("/v1/batches", json={"jobs": [{"kind": "echo"}] * 10_000})
    )
    await batch_began.wait()
    for _ in range(SINGLES):
        assert (await http.post("/v1/jobs", json={"kind": "echo"})).status_code == 202
    assert not batch.done()
    assert (await batch).status_code == 202

    first, last = commits.index("slice"), len(commits) - commits[::-1].index("slice")
    assert commits[first:last].count("single") == SINGLES
    # Each of them waited for a few slices at most, never for the batch.
    places = [at for at, what in enumerate(commits) if what == "single"]
    assert max(b - a for a, b in pairwise(places)) < 20
