"""Client: submit a job from a Python program and come back for its result.

AsyncClient is the same for asyncio. Neither decides anything: what to send, what to repeat and how
to read it is in `calls`; a driver carries it out.
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
from coatcheck.client.calls import ApiCalls, JobQuery, Page
from coatcheck.client.download import into
from coatcheck.client.driver import Driver
from coatcheck.client.event import Event
from coatcheck.client.handle import Handle, ResultT
from coatcheck.client.new_job import JobOptions, NewJob
from coatcheck.client.results import UNTYPED, read_type
from coatcheck.client.retry import RetryPolicy
from coatcheck.client.schedules import ScheduleOptions
from coatcheck.client.webhooks import WebhookClient
from coatcheck.model.upload import Upload

T = TypeVar("T")
# For a result; the job goes on after it.
DEFAULT_TIMEOUT_S = 900.0
# For the answer to one request, and for a request with all its repetitions.
ANSWER_TIMEOUT_S = 30.0
RETRY_FOR_S = 60.0


class JobHandle(Handle[ResultT]):
    """A submitted job, seen from the program that submitted it."""

    def __init__(
        self, client: Client, job: dict[str, Any], result_type: TypeAdapter[Any] = UNTYPED
    ) -> None:
        super().__init__(job, result_type)
        self._client = client

    def refresh(self) -> dict[str, Any]:
        """Read how the job stands now."""
        return self._keep(self._client.get(self.id))

    def result(self, timeout: float = DEFAULT_TIMEOUT_S) -> ResultT:
        """Wait for the job and return its result; raises JobFailed, JobCancelled or TimedOut.

        A server that restarts meanwhile is waited for. The job goes on when the wait is over.
        """
        return self._outcome(self._client.wait(self.id, timeout), timeout)

    def events(self, after: int | None = None) -> Generator[Event, None, None]:
        """Iterate over what happens to the job, from its beginning (or after an event) to its end.

        Each event comes once and in order, however often the connection is cut.
        """
        client = self._client
        return client._driver.iterate(client._calls.events(self.id, after, self._keep))

    def artifacts(self) -> list[dict[str, Any]]:
        """Read which files the job has left behind so far: names, types, sizes."""
        return self._client.artifacts(self.id)

    def artifact(self, name: str) -> bytes:
        """Read a file that the job has left behind."""
        return self._client.artifact(self.id, name)

    def download(self, name: str, path: str | os.PathLike[str]) -> None:
        """Write a file that the job has left behind to a path, which is there once it is whole."""
        self._client.download(self.id, name, path)

    def explain(self) -> list[dict[str, str]]:
        """Say what holds the job: a list of codes and sentences, the most telling first."""
        return self._client.explain(self.id)

    def cancel(self) -> dict[str, Any]:
        """Ask for the job to be cancelled."""
        return self._keep(self._client.cancel(self.id))

    def steps(self) -> list[dict[str, Any]]:
        """Read what the job has done so far, in order."""
        return self._client.steps(self.id)

    def send(self, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to the job, for `ctx.wait_for(name)`; raises Conflict if it has ended.

        Each call is an event of its own. Where the connection is cut in the middle it raises
        Unreachable, and the event may have arrived all the same.
        """
        return self._keep(self._client.send(self.id, name, data))

    def resume(self) -> dict[str, Any]:
        """Let the job go on from its last checkpoint, if it failed or was cancelled."""
        return self._keep(self._client.resume_job(self.id))

    def fork(
        self,
        from_step: int | str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        idempotency_key: str | None = None,
    ) -> JobHandle[ResultT]:
        """Begin a new job at a step of this one, by its index from 0 or its name: what was done
        before that step is not done again. Its input is this job's, unless another one is given.
        """
        steps = self._client._calls.fork(self.id, from_step, input, idempotency_key)
        return JobHandle(self._client, self._client._driver.run(steps), self._result_type)

    def delete(self) -> dict[str, Any]:
        """Delete the job, which must have ended, and return a receipt."""
        return self._client.delete(self.id)


class Client:
    """Talks to a Coatcheck server. Use it as a context manager, or close it.

    Threads may share one. `base_url` and `api_key` are COATCHECK_URL and COATCHECK_API_KEY where
    they are not given. One request may take `timeout` seconds; where the server cannot be reached
    or says "not now" it is repeated for up to `retry_for` seconds.
    `driver` makes what sends the requests and lets time pass; tests give their own.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = ANSWER_TIMEOUT_S,
        retry_for: float = RETRY_FOR_S,
        driver: Callable[[ServerAddress], Driver] = Driver,
    ) -> None:
        address = find_address(base_url, api_key)
        self._driver = driver(address)
        self._calls = ApiCalls(
            RetryPolicy(address.shown, timeout, retry_for, self._driver.monotonic)
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
        """Let go of the connections."""
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
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        result_type: Any = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> JobHandle[Any]:
        """Hand a job in; when this returns, it is durable, and there is one of it.

        It always goes under an idempotency key, so it can be repeated safely; give one of your own
        to make it one job across restarts of your program too. `result_type` is what the result
        must be. Options: `queue`, `priority`, `labels`, `run_at`, `deadline_s`, `max_attempts`.
        """
        adapter = read_type(result_type)
        steps = self._calls.submit(NewJob(kind, input, **options), idempotency_key)
        return JobHandle(self, self._driver.run(steps), adapter)

    def upload(
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
        return self._driver.run(self._calls.upload(data, name, content_type, idempotency_key))

    def submit_batch(
        self, jobs: Sequence[NewJob], *, idempotency_key: str | None = None
    ) -> builtins.list[JobHandle]:
        """Hand up to 10,000 jobs in, all or none, and return their handles in order."""
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
        input: Any = None,  # noqa: A002 - the name the contract gives it
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
        """Come back to a job by its id."""
        return JobHandle(self, self.get(job_id), read_type(result_type))

    def get(self, job_id: str) -> dict[str, Any]:
        """Read a job."""
        return self._driver.run(self._calls.get(job_id))

    def wait(self, job_id: str, timeout: float = DEFAULT_TIMEOUT_S) -> dict[str, Any]:
        """Read a job when it has ended, or as it stands when the time runs out."""
        return self._driver.run(self._calls.wait(job_id, timeout))

    def artifacts(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read which files a job has left behind so far: names, types, sizes."""
        return self._driver.run(self._calls.artifacts(job_id))

    def artifact(self, job_id: str, name: str) -> bytes:
        """Read a file that a job has left behind."""
        file = io.BytesIO()
        self._driver.run(self._calls.download(job_id, name, file))
        return file.getvalue()

    def download(self, job_id: str, name: str, path: str | os.PathLike[str]) -> None:
        """Write a file that a job has left behind to a path, which is there once it is whole."""
        with into(path) as file:
            self._driver.run(self._calls.download(job_id, name, file))

    def explain(self, job_id: str) -> builtins.list[dict[str, str]]:
        """Say what holds a job: a list of codes and sentences, the most telling first."""
        return self._driver.run(self._calls.explain(job_id))

    def list(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        **which: Unpack[JobQuery],
    ) -> Page:
        """Read a page of jobs, newest first and without their results.

        Filters: `state`, `kind`, `queue`, `labels` (all must be there), `created_after`.
        """
        return self._driver.run(self._calls.list(which, limit, cursor))

    def iterate(
        self, *, page_size: int | None = None, **which: Unpack[JobQuery]
    ) -> Generator[dict[str, Any], None, None]:
        """Iterate over all jobs that `list` would find, reading pages as they are wanted."""
        return self._driver.iterate(self._calls.iterate(which, page_size))

    def cancel(self, job_id: str) -> dict[str, Any]:
        """Ask for a job to be cancelled."""
        return self._driver.run(self._calls.cancel(job_id))

    def steps(self, job_id: str) -> builtins.list[dict[str, Any]]:
        """Read what a job has done so far, in order."""
        return self._driver.run(self._calls.steps(job_id))

    def send(self, job_id: str, name: str, data: Any = None) -> dict[str, Any]:
        """Send an event to a job, for `ctx.wait_for(name)`; raises Conflict if it has ended."""
        return self._driver.run(self._calls.send(job_id, name, data))

    def resume_job(self, job_id: str) -> dict[str, Any]:
        """Let a job go on from its last checkpoint, if it failed or was cancelled."""
        return self._driver.run(self._calls.resume_job(job_id))

    def resume_all(self, *, dry_run: bool = False, **which: Unpack[JobQuery]) -> int:
        """Let all jobs go on that a filter finds, and return how many; `dry_run` only counts them.

        Filters: `state` (failed unless told; or cancelled), `kind`, `queue`, `labels`,
        `created_after`.
        """
        return self._driver.run(self._calls.resume_all(which, dry_run))

    def delete(self, job_id: str) -> dict[str, Any]:
        """Delete a job that has ended, and return a receipt."""
        return self._driver.run(self._calls.delete(job_id))

    def kinds(self) -> builtins.list[dict[str, Any]]:
        """Read what can be submitted, with the schemas of inputs and results."""
        return self._driver.run(self._calls.kinds())

    def workers(self) -> builtins.list[dict[str, Any]]:
        """Read the registered workers and the jobs they hold."""
        return self._driver.run(self._calls.workers())

    def queues(self) -> builtins.list[dict[str, Any]]:
        """Read the queues and how deep they are."""
        return self._driver.run(self._calls.queues())

    def pause(self, queue: str) -> dict[str, Any]:
        """Stop starting jobs of a queue; what runs goes on."""
        return self._driver.run(self._calls.pause(queue))

    def resume(self, queue: str) -> dict[str, Any]:
        """Start jobs of a queue again."""
        return self._driver.run(self._calls.resume(queue))

    def schedules(self) -> builtins.list[dict[str, Any]]:
        """Read the schedules, by name."""
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
        """Make a schedule, or change it to what is said now.

        When: `cron` and `timezone`, or `every_s` and `start_at`. Also `catch_up`, `overlap`, and
        for its jobs `queue`, `priority`, `labels`, `deadline_s`, `max_attempts`.
        """
        return self._driver.run(self._calls.schedules.put(name, kind, input, options))

    def delete_schedule(self, name: str) -> None:
        """Delete a schedule; its jobs stay."""
        self._driver.run(self._calls.schedules.delete(name))

    def pause_schedule(self, name: str) -> dict[str, Any]:
        """Stop a schedule; ticks that come meanwhile are not made up for."""
        return self._driver.run(self._calls.schedules.pause(name))

    def resume_schedule(self, name: str) -> dict[str, Any]:
        """Let a paused schedule go on with its next tick."""
        return self._driver.run(self._calls.schedules.resume(name))

    def trigger(self, schedule: str, *, idempotency_key: str | None = None) -> JobHandle:
        """Have a schedule's job made now, whatever the time; there is one of it."""
        steps = self._calls.trigger(schedule, idempotency_key)
        return JobHandle(self, self._driver.run(steps))

    def ticks(self, schedule: str, limit: int = 10) -> builtins.list[str]:
        """Read when a schedule is due next."""
        return self._driver.run(self._calls.schedules.ticks(schedule, limit))
