"""Client: submit jobs to a server and read their results.

Generated from async_client.py by `make unasync`.

Neither client decides anything: `calls` builds requests, repeats them and reads the responses; a
driver performs the I/O.
"""

from __future__ import annotations

import builtins
import io
import os
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from pydantic import TypeAdapter

from coatcheck.client.address import ServerAddress, find_address
from coatcheck.client.calls.download import atomic_file
from coatcheck.client.calls.events import Event
from coatcheck.client.calls.jobs import ApiCalls, JobQuery, Page
from coatcheck.client.calls.schedules import ScheduleOptions
from coatcheck.client.driver import Driver
from coatcheck.client.handle import (
    DEFAULT_TIMEOUT_S,
    UNTYPED,
    Handle,
    ResultT,
    result_adapter,
)
from coatcheck.client.new_job import JobOptions, NewJob
from coatcheck.client.retry import RESPONSE_TIMEOUT_S, RETRY_FOR_S, RequestRetryPolicy
from coatcheck.client.webhooks import WebhookClient
from coatcheck.model.upload import Upload

T = TypeVar("T")


class JobHandle(Handle[ResultT]):
    """A submitted job: read it, wait for its result, cancel, resume or fork it."""

    def __init__(
        self, client: Client, job: dict[str, Any], result_type: TypeAdapter[Any] = UNTYPED
    ) -> None:
        super().__init__(job, result_type)
        self._client = client

    def refresh(self) -> dict[str, Any]:
        """Read the job's current state."""
        return self._update(self._client.get(self.id))

    def result(self, timeout: float = DEFAULT_TIMEOUT_S) -> ResultT:
        """Wait for the job and return its result; raise JobFailed, JobCancelled or TimedOut.

        The wait survives a restart of the server. The job continues after a timeout.
        """
        return self._outcome(self._client.wait(self.id, timeout), timeout)

    def events(self, after: int | None = None) -> Generator[Event, None]:
        """Iterate over the job's events, from its first (or after a given one) to its last.

        Each event arrives once and in order, even if the connection is lost. To stop early, close
        the iterator, for example with `contextlib.closing`.
        """
        client = self._client
        return client._driver.iterate(client._calls.events(self.id, after, self._update))

    def artifacts(self) -> list[dict[str, Any]]:
        """List the job's artifacts so far: names, types, sizes."""
        return self._client.artifacts(self.id)

    def artifact(self, name: str) -> bytes:
        """Read one of the job's artifacts."""
        return self._client.artifact(self.id, name)

    def download(self, name: str, path: str | os.PathLike[str]) -> None:
        """Download an artifact to a path; the file appears there once it is complete."""
        self._client.download(self.id, name, path)

    def explain(self) -> list[dict[str, str]]:
        """Explain why the job is not finished: codes and messages, most important first."""
        return self._client.explain(self.id)

    def cancel(self) -> dict[str, Any]:
        """Request the job's cancellation."""
        return self._update(self._client.cancel(self.id))

    def steps(self) -> list[dict[str, Any]]:
        """Read the job's recorded steps, in order."""
        return self._client.steps(self.id)

    def send(self, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to the job, for `ctx.wait_for(name)`; raise Conflict if it is finished.

        Each call sends one event. If it raises Unreachable, the event may still have arrived.
        """
        return self._update(self._client.send(self.id, name, data))

    def resume(self) -> dict[str, Any]:
        """Resume the job from its last checkpoint, if it failed or was cancelled."""
        return self._update(self._client.resume_job(self.id))

    def fork(
        self,
        from_step: int | str,
        input: Any = None,  # noqa: A002 - the public name
        *,
        idempotency_key: str | None = None,
    ) -> JobHandle[ResultT]:
        """Submit a new job that starts from a step of this one: an index from 0, or a name.

        Steps before that one are copied and do not run again. The input is this job's unless you
        give another.
        """
        body = {"from_step": from_step} | ({} if input is None else {"input": input})
        effects = self._client._calls.fork(self.id, body, idempotency_key)
        return JobHandle(self._client, self._client._driver.run(effects), self._result_type)

    def delete(self) -> dict[str, Any]:
        """Delete the job, which must be finished, and return a receipt."""
        return self._client.delete(self.id)


class Client:
    """A client of one Coatcheck server. Use it as a context manager, or close it.

    It can be shared by any number of threads. `base_url` and `api_key` default to
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
        driver: Callable[[ServerAddress], Driver] = Driver,
    ) -> None:
        address = find_address(base_url, api_key)
        self._driver = driver(address)
        self._calls = ApiCalls(
            RequestRetryPolicy(address.shown, timeout, retry_for, self._driver.monotonic)
        )
        self.webhooks = WebhookClient(self._driver, self._calls.webhooks)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()

    @overload
    def submit(
        self,
        kind: str,
        input: Any = None,
        *,
        result_type: type[T],
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[T]: ...

    @overload
    def submit(
        self,
        kind: str,
        input: Any = None,
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle: ...

    def submit(
        self,
        kind: str,
        input: Any = None,  # noqa: A002 - the public name
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Submit one job; it is durable when this returns.

        The request always carries an idempotency key, so it can be repeated safely. Pass your own
        key to submit the job once even across restarts of your program. The result is validated
        against `result_type`. Options: `queue`, `priority`, `labels`, `run_at`, `deadline_s`,
        `max_attempts`, `webhook`.
        """
        adapter = result_adapter(result_type)
        effects = self._calls.submit(NewJob(kind, input, **options), idempotency_key)
        return JobHandle(self, self._driver.run(effects), adapter)

    def upload(
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
        return self._driver.run(self._calls.upload(data, name, content_type, idempotency_key))

    def submit_batch(
        self, jobs: Sequence[NewJob], *, idempotency_key: str | None = None
    ) -> builtins.list[JobHandle]:
        """Submit up to 10,000 jobs, all or none, and return their handles in order."""
        found = self._driver.run(self._calls.submit_batch(jobs, idempotency_key))
        return [JobHandle(self, job) for job in found]

    @overload
    def run(
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
    def run(
        self,
        kind: str,
        input: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Any: ...

    def run(
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
        handle = self.submit(
            kind, input, result_type=result_type, idempotency_key=idempotency_key, **options
        )
        return handle.result(timeout)

    @overload
    def handle(self, job_id: str, *, result_type: type[T]) -> JobHandle[T]: ...

    @overload
    def handle(self, job_id: str, *, result_type: Any = None) -> JobHandle: ...

    def handle(self, job_id: str, *, result_type: Any = None) -> JobHandle[Any]:
        """Return the handle of a job by its id."""
        return JobHandle(self, self.get(job_id), result_adapter(result_type))

    def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return self._driver.run(self._calls.get(job_id))

    def wait(self, job_id: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Read a job once it is finished, or its current state after the timeout."""
        return self._driver.run(self._calls.wait(job_id, timeout))

    def artifacts(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """List a job's artifacts so far: names, types, sizes."""
        return self._driver.run(self._calls.artifacts(job_id))

    def artifact(self, job_id: str, name: str) -> bytes:
        """Read one of a job's artifacts."""
        file = io.BytesIO()
        self._driver.run(self._calls.download(job_id, name, file))
        return file.getvalue()

    def download(self, job_id: str, name: str, path: str | os.PathLike[str]) -> None:
        """Download an artifact to a path; the file appears there once it is complete."""
        with atomic_file(path) as file:
            self._driver.run(self._calls.download(job_id, name, file))

    def explain(self, job_id: str) -> builtins.list[dict[str, str]]:
        """Explain why a job is not finished: codes and messages, most important first."""
        return self._driver.run(self._calls.explain(job_id))

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Unpack[JobQuery],
    ) -> Page:
        """Read a page of jobs, newest first, without their results.

        Filters: `state`, `kind`, `queue`, `labels` (all must match), `created_after`.
        """
        return self._driver.run(self._calls.list(which, limit, cursor))

    def iterate(
        self, *, page_size: int | None = None, **which: Unpack[JobQuery]
    ) -> Generator[dict[str, Any], None]:
        """Iterate over all jobs that match the filters of `list`; read pages as needed."""
        return self._driver.iterate(self._calls.iterate(which, page_size))

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Request a job's cancellation."""
        return self._driver.run(self._calls.cancel(job_id))

    def steps(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read a job's recorded steps, in order."""
        return self._driver.run(self._calls.steps(job_id))

    def send(self, job_id: str, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a job, for `ctx.wait_for(name)`; raise Conflict if it is finished."""
        return self._driver.run(self._calls.send(job_id, name, data))

    def resume_job(self, job_id: str) -> dict[str, Any]:
        """Resume a job from its last checkpoint, if it failed or was cancelled."""
        return self._driver.run(self._calls.resume_job(job_id))

    def resume_all(self, *, dry_run: bool = False, **which: Unpack[JobQuery]) -> int:
        """Resume all jobs that match a filter, and return how many; `dry_run` only counts them.

        Filters: `state` (failed by default, or cancelled), `kind`, `queue`, `labels`,
        `created_after`.
        """
        return self._driver.run(self._calls.resume_all(which, dry_run))

    def delete(self, job_id: str) -> dict[str, Any]:
        """Delete a finished job, and return a receipt."""
        return self._driver.run(self._calls.delete(job_id))

    def kinds(self) -> builtins.list[dict[str, Any]]:
        """Read the declared kinds, with the schemas of their inputs and results."""
        return self._driver.run(self._calls.kinds())

    def workers(self) -> builtins.list[dict[str, Any]]:
        """Read the registered workers and the jobs they hold."""
        return self._driver.run(self._calls.workers())

    def queues(self) -> builtins.list[dict[str, Any]]:
        """Read the queues and their depths."""
        return self._driver.run(self._calls.queues())

    def pause(self, queue: str) -> dict[str, Any]:
        """Pause a queue; running jobs continue."""
        return self._driver.run(self._calls.pause(queue))

    def resume(self, queue: str) -> dict[str, Any]:
        """Resume a paused queue."""
        return self._driver.run(self._calls.resume(queue))

    def schedules(self) -> builtins.list[dict[str, Any]]:
        """Read the schedules, sorted by name."""
        return self._driver.run(self._calls.schedules.all())

    def schedule(self, name: str) -> dict[str, Any]:
        """Read a schedule."""
        return self._driver.run(self._calls.schedules.get(name))

    def put_schedule(
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
        return self._driver.run(self._calls.schedules.put(name, kind, input, options))

    def delete_schedule(self, name: str) -> None:
        """Delete a schedule; its jobs remain."""
        self._driver.run(self._calls.schedules.delete(name))

    def pause_schedule(self, name: str) -> dict[str, Any]:
        """Pause a schedule; ticks that fall due while it is paused are skipped."""
        return self._driver.run(self._calls.schedules.pause(name))

    def resume_schedule(self, name: str) -> dict[str, Any]:
        """Resume a paused schedule with its next tick."""
        return self._driver.run(self._calls.schedules.resume(name))

    def trigger(self, schedule: str, *, idempotency_key: str | None = None) -> JobHandle:
        """Submit a schedule's job now, once."""
        return JobHandle(self, self._driver.run(self._calls.trigger(schedule, idempotency_key)))

    def ticks(self, schedule: str, limit: int = 10) -> builtins.list[str]:
        """Read the next ticks of a schedule."""
        return self._driver.run(self._calls.schedules.ticks(schedule, limit))
