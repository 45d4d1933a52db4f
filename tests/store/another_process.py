"""What the tests run in other processes, and how they talk to them.

    with AnotherProcess("submit", database) as other:
        other.tell()            # it was waiting for a line on its standard input
        assert other.says() == "submitted"

A process says in a line what it has reached, and waits for a line where it should go on. So tests
and processes wait for each other, and never for time to pass.
"""

import asyncio
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from coatcheck.errors import StoreUnavailable
from coatcheck.ids import UlidGenerator
from coatcheck.model.job import DEFAULT_TENANT, JobInsert
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.base import JobFilter, Topic
from coatcheck.store.sqlite.database.locks import FileLock, LivenessLocks
from coatcheck.store.sqlite.store import SQLiteStore

NOW = 1_700_000_000_000
ROOT = Path(__file__).parents[2]

new_id = UlidGenerator()


class AnotherProcess:
    """A process that plays one of the parts below; it ends with the test at the latest."""

    def __init__(
        self,
        *arguments: object,
        module: str = "tests.store.another_process",
        environment: dict[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def says(self) -> str:
        """Wait for the next line it says; empty when it has ended."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "go on") -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self) -> str:
        """Wait for its end, which must be a good one, and return what else it said."""
        said, complaints = self._process.communicate()
        assert complaints == ""
        assert self._process.returncode == 0
        return said.strip()

    def kill(self) -> None:
        """End it the hard way, and wait until it has."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Freeze it, and wait until it is."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let it run again."""
        self._process.send_signal(signal.SIGCONT)


def say(line: object) -> None:
    print(line, flush=True)


def listen() -> str:
    return sys.stdin.readline().strip()


def new_job(text: str = "null") -> JobInsert:
    return JobInsert(id=new_id(), kind="mail", input=text, created_at=NOW, run_at=NOW)


# --- the parts


async def migrate(database: str) -> None:
    """Migrate at the same moment as others."""
    say("ready")
    listen()
    say(len(await SQLiteStore(Path(database)).migrate()))


async def submit(database: str) -> None:
    """Submit a job each time it is told to."""
    store = SQLiteStore(Path(database), poll_s=60)
    await store.open()
    say("open")
    while await asyncio.to_thread(listen) == "go on":
        await store.jobs.submit(new_job(), NOW)
        say("submitted")
    await store.close()


async def subscribe(database: str, poll_s: str = "60") -> None:
    """Wait to be woken for work, and say so."""
    store = SQLiteStore(Path(database), poll_s=float(poll_s))
    await store.open()
    wake_up = store.subscribe(Topic.WORK)
    say("waiting")
    await wake_up.wait()
    say("woken")
    await store.close()


async def lock(path: str) -> None:
    """Hold a lock until it is told to let go, or ends."""
    with FileLock(Path(path)):
        say("locked")
        listen()
    say("unlocked")
    listen()


async def live(folder: str, worker_id: str) -> None:
    """Show life signs of a worker until the end of the process."""
    LivenessLocks(Path(folder)).hold(worker_id)
    say("alive")
    listen()


async def work(database: str, worker_id: str) -> None:
    """Be a registered worker until the end of the process."""
    store = SQLiteStore(Path(database), poll_s=60)
    await store.open()
    await store.workers.register_worker(WorkerInfo(worker_id, "here", 1, ("mail",), 1, NOW))
    say("registered")
    await asyncio.to_thread(listen)


async def fill_disk(database: str) -> None:
    """Run into a limit of the file size, as into a full disk, and go on once it is lifted."""
    store = SQLiteStore(Path(database), poll_s=60)
    await store.open()
    accepted: list[JobInsert] = []
    refused: list[JobInsert] = []
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
    while not refused:
        jobs = [new_job('"' + "x" * 50_000 + '"') for _ in range(8)]
        answers = await asyncio.gather(
            *(store.jobs.submit(job, NOW) for job in jobs), return_exceptions=True
        )
        for job, answer in zip(jobs, answers, strict=True):
            if answer is None:
                accepted.append(job)
            else:
                assert isinstance(answer, StoreUnavailable), answer
                refused.append(job)
    assert await found(store) == {job.id for job in accepted}, "while the disk is full"

    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    for job in refused:
        await store.jobs.submit(job, NOW)
    assert await found(store) == {job.id for job in accepted + refused}, "once there is room"
    await store.close()
    say(f"{len(accepted)} accepted, {len(refused)} refused")


async def ping_on_a_full_disk(database: str) -> None:
    """Find out whether a ping notices what a submit does."""
    store = SQLiteStore(Path(database), poll_s=60)
    await store.open()
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))
    try:
        while True:
            await store.jobs.submit(new_job('"' + "x" * 50_000 + '"'), NOW)
    except StoreUnavailable:
        say("a submit is refused")
    try:
        for _ in range(1_000):  # each takes a page of what is left
            await store.ping()
    except StoreUnavailable:
        say("a ping is refused")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await store.ping()
    await store.close()


async def found(store: SQLiteStore) -> set[str]:
    return {
        job.id for job in await store.jobs.list_jobs(JobFilter(DEFAULT_TENANT, limit=1_000_000))
    }


PARTS: list[Callable[..., Coroutine[Any, Any, None]]] = [
    migrate,
    submit,
    subscribe,
    lock,
    live,
    work,
    fill_disk,
    ping_on_a_full_disk,
]

if __name__ == "__main__":
    [part] = [part for part in PARTS if part.__name__ == sys.argv[1]]
    asyncio.run(part(*sys.argv[2:]))
