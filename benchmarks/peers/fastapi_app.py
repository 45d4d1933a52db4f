"""A hand-made jobs table behind FastAPI: what a team writes before it looks for a job engine.

The route checks the body with pydantic, inserts one row and commits it (WAL, synchronous=FULL), in
FastAPI's thread pool since the standard library's driver blocks. No events, no input apart, no
keys, no indexes beyond the primary key: less is written for a job than Coatcheck writes.

    python fastapi_app.py DATABASE    # serves on a free loopback port and prints it
"""

from __future__ import annotations

import json
import socket
import sqlite3
import sys
import threading
import time
import uuid
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

DATABASE = sys.argv[1]
app = FastAPI()
here = threading.local()


class Job(BaseModel):
    kind: str
    input: Any = None
    priority: int = 0


def connection() -> sqlite3.Connection:
    if not hasattr(here, "connection"):
        here.connection = sqlite3.connect(DATABASE, timeout=60, isolation_level=None)
        here.connection.execute("PRAGMA journal_mode = WAL")
        here.connection.execute("PRAGMA synchronous = FULL")
    made: sqlite3.Connection = here.connection
    return made


@app.post("/v1/jobs", status_code=202)
def submit(job: Job) -> dict[str, Any]:
    job_id, now = uuid.uuid4().hex, time.time()
    connection().execute(
        "INSERT INTO jobs (id, kind, input, priority, state, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        (job_id, job.kind, json.dumps(job.input), job.priority, "queued", now),
    )
    return {"id": job_id, "kind": job.kind, "state": "queued", "created_at": now}


@app.get("/healthz")
async def healthz() -> dict[str, str]:
    return {"status": "ok"}


if __name__ == "__main__":
    connection().execute(
        "CREATE TABLE IF NOT EXISTS jobs (id TEXT PRIMARY KEY, kind TEXT, input TEXT,"
        " priority INTEGER, state TEXT, created_at REAL)"
    )
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])
