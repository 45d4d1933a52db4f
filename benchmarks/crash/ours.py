"""The pipeline as a Coatcheck job: one process with an engine and a worker, on SQLite."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.crash.pipeline import Pipeline, batches_of
from coatcheck import App, Context
from coatcheck.cli.server.runtime import open_engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.worker.worker import Worker

app = App()


@app.job(retries=1000)
def ingest(ctx: Context, folder: str) -> int:
    """Run the steps."""
    stages = Pipeline(Path(folder))
    passages: list[str] = ctx.step(stages.chunk, ctx.step(stages.extract))
    for number, batch in enumerate(batches_of(passages)):
        ctx.step(stages.embed, number, batch, key=number)
    published: int = ctx.step(stages.publish)
    return published


async def main(folder: Path) -> dict[str, Any]:
    """Start or continue the document's job and wait until it finishes."""
    settings = Settings(database=f"sqlite:///{folder}/jobs.db", drain_s=0)
    async with open_engine(app, settings) as engine:
        found = await engine.list_jobs(JobFilter(DEFAULT_TENANT))
        worker, stop, ready = Worker(engine, settings), asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(worker.run(stop, ready.set))
        await ready.wait()
        began = time.time()
        job = (
            found[0]
            if found
            else await engine.submit(Submission("ingest", json.dumps(str(folder))))
        )
        job = await engine.wait(job.id, 300)
        stop.set()
        await running
    return {"ready": began, "ended": time.time(), "published": json.loads(job.result or "null")}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
