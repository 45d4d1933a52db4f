"""The pipeline as a DBOS workflow on SQLite, in its fastest journal mode (WAL)."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from dbos import DBOS, DBOSConfig, SetWorkflowID

from benchmarks.crash.pipeline import Pipeline, batches_of

WORKFLOW = "document"
stages = Pipeline(Path(sys.argv[1]))


@DBOS.step()
def extract() -> str:
    return stages.extract()


@DBOS.step()
def chunk(text: str) -> list[str]:
    return stages.chunk(text)


@DBOS.step()
def embed(number: int, batch: list[str]) -> int:
    return stages.embed(number, batch)


@DBOS.step()
def publish() -> int:
    return stages.publish()


@DBOS.workflow()
def ingest() -> int:
    passages = chunk(extract())
    for number, batch in enumerate(batches_of(passages)):
        embed(number, batch)
    return publish()


def main(folder: Path) -> dict[str, Any]:
    path = folder / "dbos.sqlite"
    is_new = not path.exists()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    config: DBOSConfig = {
        "name": "ingest",
        "system_database_url": f"sqlite:///{path}",
        "run_admin_server": False,
        "log_level": "ERROR",
        # DBOS only recovers workflows of the same version.
        "application_version": "bench",
    }
    DBOS(config=config)
    DBOS.launch()  # recovers workflows in progress
    began = time.time()
    if is_new:
        with SetWorkflowID(WORKFLOW):
            handle = DBOS.start_workflow(ingest)
    else:
        handle = DBOS.retrieve_workflow(WORKFLOW)
    published = handle.get_result()
    ended = time.time()
    DBOS.destroy()
    return {"ready": began, "ended": ended, "published": published}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
