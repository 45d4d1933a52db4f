"""What the tests run in other processes: `python -m tests.postgres.another_process PART ...`.

How tests and processes talk to each other is told in tests/store/another_process.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from coatcheck.store.base import Topic
from coatcheck.store.postgres.store import PostgresStore
from tests.store.another_process import NOW, AnotherProcess, listen, new_job, say

MODULE = "tests.postgres.another_process"


def another_process(*arguments: object) -> AnotherProcess:
    """Start a process that plays one of the parts below."""
    return AnotherProcess(*arguments, module=MODULE)


async def migrate(dsn: str, schema: str) -> None:
    """Migrate at the same moment as others."""
    say("ready")
    listen()
    say(len(await PostgresStore(dsn, schema=schema).migrate()))


async def submit(dsn: str, schema: str) -> None:
    """Submit a job each time it is told to."""
    store = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await store.open()
    say("open")
    while await asyncio.to_thread(listen) == "go on":
        await store.jobs.submit(new_job(), NOW)
        say("submitted")
    await store.close()


async def subscribe(dsn: str, schema: str) -> None:
    """Say each time it is woken for work."""
    store = PostgresStore(dsn, schema=schema, connections=2, poll_s=60)
    await store.open()
    wake_up = store.subscribe(Topic.WORK)
    await wake_up.wait()  # it listens
    say("waiting")
    await wake_up.wait()
    say("woken")
    await store.close()


PARTS: list[Callable[..., Coroutine[Any, Any, None]]] = [migrate, submit, subscribe]

if __name__ == "__main__":
    [part] = [part for part in PARTS if part.__name__ == sys.argv[1]]
    asyncio.run(part(*sys.argv[2:]))
