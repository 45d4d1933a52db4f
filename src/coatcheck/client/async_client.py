"""AsyncClient: submit jobs to a server and read their results.

`client.py` is generated from this module.

Neither client decides anything: `calls` builds requests, repeats them and reads the responses; a
driver performs the I/O.
"""

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
from coatcheck.client.async_webhooks import AsyncWebhookClient
from coatcheck.client.calls.download import atomic_file
from coatcheck.client.calls.events import Event
from coatcheck.client.calls.jobs import ApiCalls, JobQuery, Page
from coatcheck.client.calls.schedules import ScheduleOptions
from coatcheck.client.handle import (
    DEFAULT_TIMEOUT_S,
    UNTYPED,
    Handle,
    ResultT,
    result_adapter,
)
from coatcheck.client.new_job import JobOptions, NewJob
from coatcheck.client.retry import RESPONSE_TIMEOUT_S, RETRY_FOR_S, RequestRetryPolicy
from coatcheck.model.upload import Upload

T = TypeVar("T")


class AsyncJobHandle(Handle[ResultT]):
    """A submitted job: read it, wait for its result, cancel, resume or fork it."""

    def __init__(
        self, client: AsyncClient, job: dict[str, Any], result_type: TypeAdapter[Any] = UNTYPED
    ) -> None:
        super().__init__(job, result_type)
        self._client = client

    async def refresh(self) -> dict[str, Any]:
        """Read the job's current state."""
        return self._update(await self._client.get(self.id))

    async def result(self, timeout: float = DEFAULT_TIMEOUT_S) -> ResultT:
        """Wait for the job and return its result; raise JobFailed, JobCancelled or TimedOut.

        The wait survives a restart of the server. The job continues after a timeout.
        """
        return self._outcome(await self._client.wait(self.id, timeout), timeout)

    def events(self, after: int | None = None) -> AsyncGenerator[Event, None]:
        """Iterate over the job's events, from its first (or after a given one) to its last.

        Each event arrives once and in order, even if the connection is lost. To stop early, close
        the iterator, for example with `contextlib.aclosing`.
        """
        client = self._client
        return client._driver.iterate(client._calls.events(self.id, after, self._update))

    async def artifacts(self) -> list[dict[str, Any]]:
        """List the job's artifacts so far: names, types, sizes."""
        return await self._client.artifacts(self.id)

    async def artifact(self, name: str) -> bytes:
        """Read one of the job's artifacts."""
        return await self._client.artifact(self.id, name)

    async def download(self, name: str, path: str | os.PathLike[str]) -> None:
        """Download an artifact to a path; the file appears there once it is complete."""
        await self._client.download(self.id, name, path)

    async def explain(self) -> list[dict[str, str]]:
        """Explain why the job is not finished: codes and messages, most important first."""
        return await self._client.explain(self.id)

    async def cancel(self) -> dict[str, Any]:
        """Request the job's cancellation."""
        return self._update(await self._client.cancel(self.id))

    async def steps(self) -> list[dict[str, Any]]:
        """Read the job's recorded steps, in order."""
        return await self._client.steps(self.id)

    async def send(self, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to the job, for `ctx.wait_for(name)`; raise Conflict if it is finished.

        Each call sends one event. If it raises Unreachable, the event may still have arrived.
        """
        return self._update(await self._client.send(self.id, name, data))

    async def resume(self) -> dict[str, Any]:
        """Resume the job from its last checkpoint, if it failed or was cancelled."""
        return self._update(await self._client.resume_job(self.id))

    async def fork(
        self,
        from_step: int | str,
        input: Any = None,  # noqa: A002 - the public name
        *,
        idempotency_key: str | None = None,
    ) -> AsyncJobHandle[ResultT]:
        """Submit a new job that starts from a step of this one: an index from 0, or a name.

        Steps before that one are copied and do not run again. The input is this job's unless you
        give another.
        """
        body = {"from_step": from_step} | ({} if input is None else {"input": input})
        effects = self._client._calls.fork(self.id, body, idempotency_key)
        return AsyncJobHandle(
            self._client, await self._client._driver.run(effects), self._result_type
        )

    async def delete(self) -> dict[str, Any]:
        """Delete the job, which must be finished, and return a receipt."""
        return await self._client.delete(self.id)


class AsyncClient:
    """A client of one Coatcheck server. Use it as a context manager, or close it.

    It can be shared by the tasks of one event loop. `base_url` and `api_key` default to
    COATCHECK_URL and COATCHECK_API_KEY. One request may take `timeout` seconds. If the server is
    unreachable or overloaded, the request is repeated for up to `retry_for` seconds. `driver`
    creates the object that sends requests and sleeps; tests pass their own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = RESPONSE_TIMEOUT_S,
        retry_for: float = RETRY_FOR_S,
        driver: Callable[[ServerAddress], AsyncDriver] = AsyncDriver,
    ) -> None:
        address = find_address(base_url, api_key)
        self._driver = driver(address)
        self._calls = ApiCalls(
            RequestRetryPolicy(address.shown, timeout, retry_for, self._driver.monotonic)
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
        """Close the connections."""
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
        input: Any = None,  # noqa: A002 - the public name
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> AsyncJobHandle[Any]:
        """Submit one job; it is durable when this returns.

        The request always carries an idempotency key, so it can be repeated safely. Pass your own
        key to submit the job once even across restarts of your program. The result is validated
        against `result_type`. Options: `queue`, `priority`, `labels`, `run_at`, `deadline_s`,
        `max_attempts`, `webhook`.
        """
        adapter = result_adapter(result_type)
        effects = self._calls.submit(NewJob(kind, input, **options), idempotency_key)
        return AsyncJobHandle(self, await self._driver.run(effects), adapter)

    async def upload(
        self,
        data: bytes | os.PathLike[str],
        *,
        name: str | None = None,
        content_type: str | None = None,
        idempotency_key: str | None = None,
    ) -> Upload:
        """Upload bytes or a file, and return a value to use in a job's input.

        The first job submitted with it owns the upload.
        """
        return await self._driver.run(self._calls.upload(data, name, content_type, idempotency_key))

    async def submit_batch(
        self, jobs: Sequence[NewJob], *, idempotency_key: str | None = None
    ) -> builtins.list[AsyncJobHandle]:
        """Submit up to 10,000 jobs, all or none, and return their handles in order."""
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
        input: Any = None,  # noqa: A002 - the public name
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
        """Return the handle of a job by its id."""
        return AsyncJobHandle(self, await self.get(job_id), result_adapter(result_type))

    async def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return await self._driver.run(self._calls.get(job_id))

    async def wait(self, job_id: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Read a job once it is finished, or its current state after the timeout."""
        return await self._driver.run(self._calls.wait(job_id, timeout))

    async def artifacts(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """List a job's artifacts so far: names, types, sizes."""
        return await self._driver.run(self._calls.artifacts(job_id))

    async def artifact(self, job_id: str, name: str) -> bytes:
        """Read one of a job's artifacts."""
        file = io.BytesIO()
        await self._driver.run(self._calls.download(job_id, name, file))
        return file.getvalue()

    async def download(self, job_id: str, name: str, path: str | os.PathLike[str]) -> None:
        """Download an artifact to a path; the file appears there once it is complete."""
        with atomic_file(path) as file:
            await self._driver.run(self._calls.download(job_id, name, file))

    async def explain(self, job_id: str) -> builtins.list[dict[str, str]]:
        """Explain why a job is not finished: codes and messages, most important first."""
        return await self._driver.run(self._calls.explain(job_id))

    async def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Unpack[JobQuery],
    ) -> Page:
        """Read a page of jobs, newest first, without their results.

        Filters: `state`, `kind`, `queue`, `labels` (all must match), `created_after`.
        """
        return await self._driver.run(self._calls.list(which, limit, cursor))

    def iterate(
        self, *, page_size: int | None = None, **which: Unpack[JobQuery]
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Iterate over all jobs that match the filters of `list`; read pages as needed."""
        return self._driver.iterate(self._calls.iterate(which, page_size))

    async def cancel(self, job_id: str) -> dict[str, Any]:
        """Request a job's cancellation."""
        return await self._driver.run(self._calls.cancel(job_id))

    async def steps(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read a job's recorded steps, in order."""
        return await self._driver.run(self._calls.steps(job_id))

    async def send(self, job_id: str, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a job, for `ctx.wait_for(name)`; raise Conflict if it is finished."""
        return await self._driver.run(self._calls.send(job_id, name, data))

    async def resume_job(self, job_id: str) -> dict[str, Any]:
        """Resume a job from its last checkpoint, if it failed or was cancelled."""
        return await self._driver.run(self._calls.resume_job(job_id))

    async def resume_all(self, *, dry_run: bool = False, **which: Unpack[JobQuery]) -> int:
        """Resume all jobs that match a filter, and return how many; `dry_run` only counts them.

        Filters: `state` (failed by default, or cancelled), `kind`, `queue`, `labels`,
        `created_after`.
        """
        return await self._driver.run(self._calls.resume_all(which, dry_run))

    async def delete(self, job_id: str) -> dict[str, Any]:
        """Delete a finished job, and return a receipt."""
        return await self._driver.run(self._calls.delete(job_id))

    async def kinds(self) -> builtins.list[dict[str, Any]]:
        """Read the declared kinds, with the schemas of their inputs and results."""
        return await self._driver.run(self._calls.kinds())

    async def workers(self) -> builtins.list[dict[str, Any]]:
        """Read the registered workers and the jobs they hold."""
        return await self._driver.run(self._calls.workers())

    async def queues(self) -> builtins.list[dict[str, Any]]:
        """Read the queues and their depths."""
        return await self._driver.run(self._calls.queues())

    async def pause(self, queue: str) -> dict[str, Any]:
        """Pause a queue; running jobs continue."""
        return await self._driver.run(self._calls.pause(queue))

    async def resume(self, queue: str) -> dict[str, Any]:
        """Resume a paused queue."""
        return await self._driver.run(self._calls.resume(queue))

    async def schedules(self) -> builtins.list[dict[str, Any]]:
        """Read the schedules, sorted by name."""
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
        """Create or replace a schedule.

        Timing: `cron` and `timezone`, or `every_s` and `start_at`; `catch_up`, `overlap`. Options
        of its jobs: `queue`, `priority`, `labels`, `deadline_s`, `max_attempts`.
        """
        return await self._driver.run(self._calls.schedules.put(name, kind, input, options))

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule; its jobs remain."""
        await self._driver.run(self._calls.schedules.delete(name))

    async def pause_schedule(self, name: str) -> dict[str, Any]:
        """Pause a schedule; ticks that fall due while it is paused are skipped."""
        return await self._driver.run(self._calls.schedules.pause(name))

    async def resume_schedule(self, name: str) -> dict[str, Any]:
        """Resume a paused schedule with its next tick."""
        return await self._driver.run(self._calls.schedules.resume(name))

    async def trigger(self, schedule: str, *, idempotency_key: str | None = None) -> AsyncJobHandle:
        """Submit a schedule's job now, once."""
        return AsyncJobHandle(
            self, await self._driver.run(self._calls.trigger(schedule, idempotency_key))
        )

    async def ticks(self, schedule: str, limit: int = 10) -> builtins.list[str]:
        """Read the next ticks of a schedule."""
        return await self._driver.run(self._calls.schedules.ticks(schedule, limit))
