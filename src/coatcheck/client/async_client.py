"""AsyncClient: what Client is, for asyncio. The two differ in `await` and in nothing else."""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from pydantic import TypeAdapter

from coatcheck.client.address import ServerAddress, find_address
from coatcheck.client.async_driver import AsyncDriver
from coatcheck.client.calls import ApiCalls, JobQuery, Page
from coatcheck.client.client import ANSWER_TIMEOUT_S, DEFAULT_TIMEOUT_S, RETRY_FOR_S
from coatcheck.client.download import into
from coatcheck.client.event import Event
from coatcheck.client.handle import Handle, ResultT
from coatcheck.client.new_job import JobOptions, NewJob
from coatcheck.client.results import UNTYPED, read_type
from coatcheck.client.retry import RetryPolicy
from coatcheck.client.schedules import ScheduleOptions
from coatcheck.client.webhooks import AsyncWebhookClient
from coatcheck.model.upload import Upload

T = TypeVar("T")


class AsyncJobHandle(Handle[ResultT]):
    """A submitted job, seen from the program that submitted it."""

    def __init__(
        self, client: AsyncClient, job: dict[str, Any], result_type: TypeAdapter[Any] = UNTYPED
    ) -> None:
        super().__init__(job, result_type)
        self._client = client

    async def refresh(self) -> dict[str, Any]:
        """Read how the job stands now."""
        return self._keep(await self._client.get(self.id))

    async def result(self, timeout: float = DEFAULT_TIMEOUT_S) -> ResultT:
        """Wait for the job and return its result; raises JobFailed, JobCancelled or TimedOut.

        A server that restarts meanwhile is waited for. The job goes on when the wait is over.
        """
        return self._outcome(await self._client.wait(self.id, timeout), timeout)

    def events(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Iterate over what happens to the job, from its beginning (or after an event) to its end.

        Each event comes once and in order, however often the connection is cut. Who leaves early
        closes it with `contextlib.aclosing`.
        """
        client = self._client
        return client._driver.iterate(client._calls.events(self.id, after, self._keep))

    async def artifacts(self) -> list[dict[str, Any]]:
        """Read which files the job has left behind so far: names, types, sizes."""
        return await self._client.artifacts(self.id)

    async def artifact(self, name: str) -> bytes:
        """Read a file that the job has left behind."""
        return await self._client.artifact(self.id, name)

    async def download(self, name: str, path: str | os.PathLike[str]) -> None:
        """Write a file that the job has left behind to a path, which is there once it is whole."""
        await self._client.download(self.id, name, path)

    async def explain(self) -> list[dict[str, str]]:
        """Say what holds the job: a list of codes and sentences, the most telling first."""
        return await self._client.explain(self.id)

    async def cancel(self) -> dict[str, Any]:
        """Ask for the job to be cancelled."""
        return self._keep(await self._client.cancel(self.id))

    async def steps(self) -> list[dict[str, Any]]:
        """Read what the job has done so far, in order."""
        return await self._client.steps(self.id)

    async def send(self, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to the job, for `ctx.wait_for(name)`; raises Conflict if it has ended.

        Each call is an event of its own. Where the connection is cut in the middle it raises
        Unreachable, and the event may have arrived all the same.
        """
        return self._keep(await self._client.send(self.id, name, data))

    async def resume(self) -> dict[str, Any]:
        """Let the job go on from its last checkpoint, if it failed or was cancelled."""
        return self._keep(await self._client.resume_job(self.id))

    async def fork(
        self,
        from_step: int | str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        idempotency_key: str | None = None,
    ) -> AsyncJobHandle[ResultT]:
        """Begin a new job at a step of this one, by its index from 0 or its name: what was done
        before that step is not done again. Its input is this job's, unless another one is given.
        """
        steps = self._client._calls.fork(self.id, from_step, input, idempotency_key)
        return AsyncJobHandle(
            self._client, await self._client._driver.run(steps), self._result_type
        )

    async def delete(self) -> dict[str, Any]:
        """Delete the job, which must have ended, and return a receipt."""
        return await self._client.delete(self.id)


class AsyncClient:
    """Talks to a Coatcheck server. Use it as a context manager, or close it.

    Tasks of one event loop may share it. `base_url` and `api_key` are COATCHECK_URL and
    COATCHECK_API_KEY where they are not given. One request may take `timeout` seconds; where the
    server cannot be reached or says "not now" it is repeated for up to `retry_for` seconds.
    `driver` makes what sends the requests and lets time pass; tests give their own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = ANSWER_TIMEOUT_S,
        retry_for: float = RETRY_FOR_S,
        driver: Callable[[ServerAddress], AsyncDriver] = AsyncDriver,
    ) -> None:
        address = find_address(base_url, api_key)
        self._driver = driver(address)
        self._calls = ApiCalls(
            RetryPolicy(address.shown, timeout, retry_for, self._driver.monotonic)
        )
        self.webhooks = AsyncWebhookClient(self._driver, self._calls.webhooks)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of the connections."""
        await self._driver.close()

    @overload
    async def submit(
        self,
        kind: str,
        input: Any = None,
        *,
        result_type: type[T],
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle[T]: ...

    @overload
    async def submit(
        self,
        kind: str,
        input: Any = None,
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle: ...

    async def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle[Any]:
        """Hand a job in; when this returns, it is durable, and there is one of it.

        It always goes under an idempotency key, so it can be repeated safely; give one of your own
        to make it one job across restarts of your program too. `result_type` is what the result
        must be. Options: `queue`, `priority`, `labels`, `run_at`, `deadline_s`, `max_attempts`.
        """
        adapter = read_type(result_type)
        steps = self._calls.submit(NewJob(kind, input, **options), idempotency_key)
        return AsyncJobHandle(self, await self._driver.run(steps), adapter)

    async def upload(
        self,
        data: bytes | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> Upload:
        """Hand a file in that a job will need, bytes or a path, and return it as a part of that
        job's input. The first job that is submitted with it takes it over.
        """
        return await self._driver.run(self._calls.upload(data, name, content_type, idempotency_key))

    async def submit_batch(
        self, jobs: Sequence[NewJob], *, idempotency_key: str | None = None
    ) -> builtins.list[AsyncJobHandle]:
        """Hand up to 10,000 jobs in, all or none, and return their handles in order."""
        found = await self._driver.run(self._calls.submit_batch(jobs, idempotency_key))
        return [AsyncJobHandle(self, job) for job in found]

    @overload
    async def run(
        self,
        kind: str,
        input: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        *,
        result_type: type[T],
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> T: ...

    @overload
    async def run(
        self,
        kind: str,
        input: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Any: ...

    async def run(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        timeout: float = DEFAULT_TIMEOUT_S,
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Any:
        """Submit a job and wait for its result."""
        handle = await self.submit(
            kind, input, result_type=result_type, idempotency_key=idempotency_key, **options
        )
        return await handle.result(timeout)

    @overload
    async def handle(self, job_id: str, *, result_type: type[T]) -> AsyncJobHandle[T]: ...

    @overload
    async def handle(self, job_id: str, *, result_type: Any = None) -> AsyncJobHandle: ...

    async def handle(self, job_id: str, *, result_type: Any = None) -> AsyncJobHandle[Any]:
        """Come back to a job by its id."""
        return AsyncJobHandle(self, await self.get(job_id), read_type(result_type))

    async def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return await self._driver.run(self._calls.get(job_id))

    async def wait(self, job_id: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Read a job when it has ended, or as it stands when the time runs out."""
        return await self._driver.run(self._calls.wait(job_id, timeout))

    async def artifacts(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read which files a job has left behind so far: names, types, sizes."""
        return await self._driver.run(self._calls.artifacts(job_id))

    async def artifact(self, job_id: str, name: str) -> bytes:
        """Read a file that a job has left behind."""
        file = io.BytesIO()
        await self._driver.run(self._calls.download(job_id, name, file))
        return file.getvalue()

    async def download(self, job_id: str, name: str, path: str | os.PathLike[str]) -> None:
        """Write a file that a job has left behind to a path, which is there once it is whole."""
        with into(path) as file:
            await self._driver.run(self._calls.download(job_id, name, file))

    async def explain(self, job_id: str) -> builtins.list[dict[str, str]]:
        """Say what holds a job: a list of codes and sentences, the most telling first."""
        return await self._driver.run(self._calls.explain(job_id))

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Unpack[JobQuery],
    ) -> Page:
        """Read a page of jobs, newest first and without their results.

        Filters: `state`, `kind`, `queue`, `labels` (all must be there), `created_after`.
        """
        return await self._driver.run(self._calls.list(which, limit, cursor))

    def iterate(
        self, *, page_size: int | None = None, **which: Unpack[JobQuery]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Iterate over all jobs that `list` would find, reading pages as they are wanted."""
        return self._driver.iterate(self._calls.iterate(which, page_size))

    async def cancel(self, job_id: str) -> dict[str, Any]:
        """Ask for a job to be cancelled."""
        return await self._driver.run(self._calls.cancel(job_id))

    async def steps(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read what a job has done so far, in order."""
        return await self._driver.run(self._calls.steps(job_id))

    async def send(self, job_id: str, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a job, for `ctx.wait_for(name)`; raises Conflict if it has ended."""
        return await self._driver.run(self._calls.send(job_id, name, data))

    async def resume_job(self, job_id: str) -> dict[str, Any]:
        """Let a job go on from its last checkpoint, if it failed or was cancelled."""
        return await self._driver.run(self._calls.resume_job(job_id))

    async def resume_all(self, *, dry_run: bool = False, **which: Unpack[JobQuery]) -> int:
        """Let all jobs go on that a filter finds, and return how many; `dry_run` only counts them.

        Filters: `state` (failed unless told; or cancelled), `kind`, `queue`, `labels`,
        `created_after`.
        """
        return await self._driver.run(self._calls.resume_all(which, dry_run))

    async def delete(self, job_id: str) -> dict[str, Any]:
        """Delete a job that has ended, and return a receipt."""
        return await self._driver.run(self._calls.delete(job_id))

    async def kinds(self) -> builtins.list[dict[str, Any]]:
        """Read what can be submitted, with the schemas of inputs and results."""
        return await self._driver.run(self._calls.kinds())

    async def workers(self) -> builtins.list[dict[str, Any]]:
        """Read the registered workers and the jobs they hold."""
        return await self._driver.run(self._calls.workers())

    async def queues(self) -> builtins.list[dict[str, Any]]:
        """Read the queues and how deep they are."""
        return await self._driver.run(self._calls.queues())

    async def pause(self, queue: str) -> dict[str, Any]:
        """Stop starting jobs of a queue; what runs goes on."""
        return await self._driver.run(self._calls.pause(queue))

    async def resume(self, queue: str) -> dict[str, Any]:
        """Start jobs of a queue again."""
        return await self._driver.run(self._calls.resume(queue))

    async def schedules(self) -> builtins.list[dict[str, Any]]:
        """Read the schedules, by name."""
        return await self._driver.run(self._calls.schedules.all())

    async def schedule(self, name: str) -> dict[str, Any]:
        """Read a schedule."""
        return await self._driver.run(self._calls.schedules.get(name))

    async def put_schedule(
        self,
        name: str,
        kind: str,
        input: Any = None,  # noqa: A002 - as in submit
        **options: Unpack[ScheduleOptions],
    ) -> dict[str, Any]:
        """Make a schedule, or change it to what is said now.

        When: `cron` and `timezone`, or `every_s` and `start_at`. Also `catch_up`, `overlap`, and
        for its jobs `queue`, `priority`, `labels`, `deadline_s`, `max_attempts`.
        """
        return await self._driver.run(self._calls.schedules.put(name, kind, input, options))

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule; its jobs stay."""
        await self._driver.run(self._calls.schedules.delete(name))

    async def pause_schedule(self, name: str) -> dict[str, Any]:
        """Stop a schedule; ticks that come meanwhile are not made up for."""
        return await self._driver.run(self._calls.schedules.pause(name))

    async def resume_schedule(self, name: str) -> dict[str, Any]:
        """Let a paused schedule go on with its next tick."""
        return await self._driver.run(self._calls.schedules.resume(name))

    async def trigger(self, schedule: str, *, idempotency_key: str | None = None) -> AsyncJobHandle:
        """Have a schedule's job made now, whatever the time; there is one of it."""
        return AsyncJobHandle(
            self, await self._driver.run(self._calls.trigger(schedule, idempotency_key))
        )

    async def ticks(self, schedule: str, limit: int = 10) -> builtins.list[str]:
        """Read when a schedule is due next."""
        return await self._driver.run(self._calls.schedules.ticks(schedule, limit))
