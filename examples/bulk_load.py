"""A dlt pipeline as a job: load JSON Lines files into tables, with progress.

After a crash only the current stage is repeated.

    coatcheck serve examples/bulk_load.py:app
    coatcheck submit bulk_load '{"folder": "exports", "into": "loaded"}' --wait

dlt extracts, normalizes and loads; each stage is a step, so a finished stage does not run again.
The stages share a folder for each job below `into`, where the next attempt finds it. With several
machines, use a folder that all of them can access.
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
PROGRESS_EVERY = 1_000

app = App()


class Load(BaseModel):
    folder: str  # with files such as orders.jsonl; each becomes a table
    into: str  # where the tables go


@app.job(timeout="2h", isolation="process")
def bulk_load(ctx: Context, request: Load) -> dict[str, int]:
    """Load every file of a folder; return the number of rows in each table."""
    files = sorted(Path(request.folder).glob("*.jsonl"))
    if not files:
        raise Fail("nothing-to-load", "the folder has no .jsonl file")
    into = Path(request.into).resolve()
    work = into / ".pipelines" / ctx.job_id

    def pipeline() -> dlt.Pipeline:
        """Open the pipeline in the state of the previous stage."""
        return dlt.pipeline(
            "bulk_load",
            pipelines_dir=str(work),
            destination=dlt.destinations.filesystem(into.as_uri()),
            dataset_name="tables",
        )

    def extract() -> dict[str, int]:
        shutil.rmtree(work, ignore_errors=True)  # remains of an interrupted attempt
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
                if number % PROGRESS_EVERY == 0:
                    ctx.progress(len(counts), files, f"{file.stem}: {number:,} rows")
                yield json.loads(line)
        counts[file.stem] = number
        ctx.progress(len(counts), files, f"{file.stem}: {number:,} rows")

    return dlt.resource(rows, name=file.stem, write_disposition="replace")
