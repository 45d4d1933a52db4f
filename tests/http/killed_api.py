"""An API process that dies right after it has made a submit durable, before it can answer.

Run as `python -m tests.http.killed_api DATABASE`; it prints its address first.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.store.sqlite.jobs import SQLiteJobs
from coatcheck.store.sqlite.store import SQLiteStore
from tests.http.kinds import Gate, declare_kinds


class DyingJobs(SQLiteJobs):
    async def submit(self, *arguments: Any) -> Any:
        await super().submit(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    async def submit_finished(self, *arguments: Any) -> None:
        await super().submit_finished(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    async def submit_batch(self, *arguments: Any) -> Any:
        await super().submit_batch(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)


async def main(database: Path) -> None:
    store = SQLiteStore(database)
    store.jobs = DyingJobs(store._writer, store._reader, store._new_id)
    await store.open()
    app = create_http_app(Engine(store, declare_kinds(Gate()).kinds))
    listening = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    await uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None)).serve([listening])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
