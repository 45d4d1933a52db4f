"""A dlt pipeline as a job: files of JSON lines become tables, with progress, and a crash costs the
stage that was under way.

    coatcheck serve examples/bulk_load.py:app
    coatcheck submit bulk_load '{"folder": "exports", "into": "loaded"}' --wait

dlt extracts, normalizes and loads; here each is a step, so what is done is not done again. What one
stage leaves for the next is in a folder of the job's own below `into`, where another attempt finds
it: on several machines, put it where all of them see it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dlt
from pydantic import BaseModel

from coatcheck import App, Context, Fail

os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")
TELL_EVERY = 1_000

app = App()


class Load(BaseModel):
    folder: str  # of files such as orders.jsonl, each of which becomes a table
    into: str  # where the tables go


@app.job(timeout="2h", isolation="process")
def bulk_load(ctx: Context, asked: Load) -> dict[str, int]:
    """Load every file of a folder; return how many rows each table got."""
    files = sorted(Path(asked.folder).glob("*.jsonl"))
    if not files:
        raise Fail("nothing-to-load", "the folder has no file that ends with .jsonl")
    into = Path(asked.into).resolve()
    work = into / ".pipelines" / ctx.job_id

    def pipeline() -> dlt.Pipeline:
        """Open the pipeline as the stages before have left it."""
        return dlt.pipeline(
            "bulk_load",
            pipelines_dir=str(work),
            destination=dlt.destinations.filesystem(into.as_uri()),
            dataset_name="tables",
        )

    def extract() -> dict[str, int]:
        shutil.rmtree(work, ignore_errors=True)  # what an attempt has left that was cut off here
        counts: dict[str, int] = {}
        pipeline().extract([_table(ctx, file, counts, len(files)) for file in files])
        return counts

    def normalize() -> None:
        pipeline().normalize()

    def load() -> None:
        pipeline().load()

    ctx.phase("extract")
    counts: dict[str, int] = ctx.step(extract)
    ctx.phase("normalize")
    ctx.step(normalize)
    ctx.phase("load")
    ctx.step(load)
    shutil.rmtree(work, ignore_errors=True)
    return counts


def _table(ctx: Context, file: Path, counts: dict[str, int], files: int) -> Any:
    def rows() -> Iterator[dict[str, Any]]:
        number = 0
        with file.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if number % TELL_EVERY == 0:
                    ctx.progress(len(counts), files, f"{file.stem}: {number:,} rows")
                yield json.loads(line)
        counts[file.stem] = number
        ctx.progress(len(counts), files, f"{file.stem}: {number:,} rows")

    return dlt.resource(rows, name=file.stem, write_disposition="replace")
