"""While ten thousand jobs come in as one batch, single submits get through between its slices."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import httpx2
import pytest

from coatcheck.store.sqlite.database.transaction import Urgency
from coatcheck.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.anyio

SINGLES = 20


async def test_single_submits_are_committed_between_the_slices_of_a_batch(
    http: httpx2.AsyncClient, store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    batch_began, in_between = asyncio.Event(), asyncio.Semaphore(0)
    write = store._writer.write

    async def of_the_batch(operation: Any, urgency: Urgency, merges: Any = None) -> Any:
        """Write a slice; the next one comes when a single submit has been committed after it."""
        answer = await write(operation, urgency, merges)
        commits.append("slice")
        batch_began.set()
        await in_between.acquire()
        return answer

    def noted(operation: Any, urgency: Urgency, merges: Any = None) -> Any:
        if urgency is Urgency.BULK:
            return of_the_batch(operation, urgency, merges)

        def note(_future: asyncio.Future[Any]) -> None:
            commits.append("single")
            in_between.release()

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
    assert not batch.done(), "it has more slices than there were singles"
    for _ in range(commits.count("slice"), 10_000):
        in_between.release()  # the rest of it may go on alone
    assert (await batch).status_code == 202

    first, last = commits.index("slice"), len(commits) - commits[::-1].index("slice")
    assert commits[first:last].count("single") == SINGLES
    # Each of them waited for a slice or two, never for the batch.
    places = [at for at, what in enumerate(commits) if what == "single"]
    assert max(b - a for a, b in pairwise(places)) < 20
