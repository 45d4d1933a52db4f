"""SIGKILL around the write of a large step result: recorded results are readable, others run again,
and no bytes are left behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.blobs.open import blobs_for
from coatcheck.clock import SystemClock
from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.payloads import RESERVED_MS
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.testing.checker import RAN, EffectLog, RunRecord, Submit, check, read_records
from coatcheck.worker.failpoints import CHECKPOINTS, STEP_STORED

from .app import BULK, app
from .launcher import Launcher
from .place import Place
from .subject import Order

pytestmark = pytest.mark.anyio

STEPS = 3


class Ahead(SystemClock):
    """A clock that can be set ahead."""

    ahead_ms = 0

    def now(self) -> int:
        return super().now() + self.ahead_ms


@pytest.mark.parametrize("point", [STEP_STORED, *CHECKPOINTS])
async def test_a_worker_is_killed_around_a_large_step(
    place: Place, launcher: Launcher, point: str
) -> None:
    blobs_folder = place.folder / "blobs"
    settings = place.settings(blobs=f"file://{blobs_folder}")
    store, blobs, clock = place.store(), blobs_for(Settings(**settings)), Ahead()  # type: ignore[arg-type]  # by name
    await store.open()
    engine = Engine(store, app.kinds, clock, blobs=blobs)
    try:
        job = await engine.submit(Submission("bulky", str(STEPS)))
        victim = launcher.start(Order("worker", str(place.folder), settings, [point], passes=2))
        assert [await victim.says(), await victim.says()] == ["ready", point]
        written = [step.seq for step in await store.jobs.list_steps(job.tenant, job.id)]
        assert written == ([0, 1] if point == "worker.after_checkpoint" else [0])
        await victim.kill()
        victim.close()

        other = launcher.start(Order("worker", str(place.folder), settings))
        ended = await engine.wait(job.id, 60)
        other.signal(15)
        await other.gone()
        other.close()
        assert ended.state is State.SUCCEEDED
        assert f'"n":{STEPS * BULK}' in (ended.result or "")
        effects, submits = EffectLog(place.folder / "effects").read(), [Submit(job.id)]
        check(RunRecord(submits, await read_records(store, submits), effects=effects))
        ran = [effect.value for effect in effects if effect.what == RAN]
        again = [] if point == "worker.after_checkpoint" else ["bulk/1"]
        assert sorted(ran) == sorted(["bulk/0", "bulk/1", "bulk/2", *again])

        clock.ahead_ms = RESERVED_MS + 1  # what nobody came to name is removed then
        await engine.payload_store.sweep()
        assert len(_files(blobs_folder)) == STEPS
        deleted = await engine.delete(job.id)
        assert deleted.deleted.blobs == STEPS
        assert _files(blobs_folder) == []
        records, tables = await read_records(store, submits), await place.dump()
        check(RunRecord(submits, records, purged=[job.id], tables=tables))
    finally:
        await store.close()
        blobs.close()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
