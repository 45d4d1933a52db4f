"""Performing the requests of handlers that run in the worker's own process.

Requests are performed on the worker's loop, with one exception: a step without a large result is
recorded from the handler's own loop. Every step waits for that write, and a round trip through the
worker's loop takes as long as the write itself. `Engine.report` allows it.

While the store is unavailable, a request waits. A request that reads or writes blobs fails instead.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.large_steps import has_large_results, offload_step_results
from coatcheck.errors import NotFound, StaleLease
from coatcheck.model.confinement import ServedJob
from coatcheck.model.job import Claim, Job, JobInsert, Lease
from coatcheck.model.kind import Kind
from coatcheck.model.payload import read_reference
from coatcheck.model.step import SentEvent, Step
from coatcheck.store.base import Report
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.failpoints import AFTER_CHECKPOINT, BEFORE_CHECKPOINT, STEP_STORED, Failpoint
from coatcheck.worker.steps.context import Context
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildStatus,
    FetchUpload,
    KeepArtifact,
    ReadChildren,
    ReadHistory,
    ReadInput,
    ReadPayload,
    RecordSteps,
    Serve,
    SpawnJob,
    WorkerRequest,
)
from coatcheck.worker.steps.step_runner import HandlerRequests
from coatcheck.worker.store_retry import retry_until_available


class WorkerServices(NamedTuple):
    """The parts of a worker that its handlers' requests use."""

    engine: Engine
    loop: asyncio.AbstractEventLoop
    scratch: Scratch
    failpoint: Failpoint
    report_soon: Callable[[LocalRequests], None]
    on_lease_lost: Callable[[Lease], None]


class LocalRequests(HandlerRequests):
    """The requests of one attempt, and the state of its reports."""

    __slots__ = (
        "_services",
        "claim",
        "context",
        "inbox",
        "kind",
        "report_in_progress",
        "report_scheduled",
    )

    def __init__(self, services: WorkerServices, claim: Claim, kind: Kind) -> None:
        self._services = services
        self.claim = claim
        self.kind = kind
        self.context = Context(
            claim,
            blocking=kind.isolation == "thread",
            requests=self,
            clock=services.engine.clock,
            backoff=kind.backoff,
            tracing=services.engine.tracing,
        )
        self.inbox: Path | None = None  # where uploads go; None: the worker's own folder
        self.report_scheduled = False
        self.report_in_progress: Future[None] | None = None

    def send(self, request: WorkerRequest) -> Future[Any]:
        """Perform a request on the worker's loop."""
        return self._on_worker_loop(self._perform(request))

    async def perform(self, request: WorkerRequest) -> Any:
        """Perform a request from the handler's loop."""
        if not isinstance(request, RecordSteps):
            return await asyncio.wrap_future(self.send(request))
        report = self._report_with(request.steps)
        if has_large_results(self._services.engine.payload_store, report.steps):
            return await asyncio.wrap_future(self._on_worker_loop(self._write_large(report)))
        return await self._write(report)

    def report_soon(self) -> None:
        """Have the worker write the handler's report within a tenth of a second."""
        self._services.report_soon(self)

    def _on_worker_loop(self, work: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._services.loop)

    async def _perform(self, request: WorkerRequest) -> Any:  # noqa: C901 - a case each
        engine, lease = self._services.engine, self.claim.lease
        match request:
            case RecordSteps(steps):
                return await self._write_large(self._report_with(steps))
            case ReadHistory():
                return await retry_until_available(self._read_history)
            case ReadChildren(ids):
                return await retry_until_available(lambda: self._read_children(ids))
            case SpawnJob():
                return await self._spawn(request)
            case ReadInput():
                return await engine.payload_store.read(self.claim.input)
            case ReadPayload(reference):
                return await retry_until_available(lambda: self._read_payload(reference))
            case KeepArtifact(name, data, content_type):
                return await engine.payload_store.save_artifact(lease, name, data, content_type)
            case FetchUpload(upload_id):
                return await self._fetch_upload(upload_id)
            case AcquireResource(group, names):
                return await retry_until_available(
                    lambda: engine.resources.acquire_one(lease, group, names)
                )
            case Serve(name, body):
                return await self._serve(name, body)

    def _report_with(self, steps: tuple[Step, ...], children: tuple[JobInsert, ...] = ()) -> Report:
        """Return a report of these steps, after everything the handler has reported before."""
        pending = self.context.take_report()
        if pending is None:
            return Report(steps=steps, children=children)
        return pending._replace(steps=(*pending.steps, *steps), children=children)

    async def _write_large(self, report: Report) -> None:
        """Write a report, and offload its large step results first."""
        payload_store, lease = self._services.engine.payload_store, self.claim.lease
        if has_large_results(payload_store, report.steps):
            report = await retry_until_available(
                lambda: offload_step_results(payload_store, lease, report)
            )
            self._services.failpoint(STEP_STORED)
        await self._write(report)

    async def _write(self, report: Report) -> None:
        services, lease = self._services, self.claim.lease
        if (earlier := self.report_in_progress) is not None:
            # It may hold earlier steps, which must not be recorded after these.
            await asyncio.shield(asyncio.wrap_future(earlier))
        services.failpoint(BEFORE_CHECKPOINT)
        held = await retry_until_available(lambda: services.engine.report(lease, report))
        services.failpoint(AFTER_CHECKPOINT)
        if not held:
            services.loop.call_soon_threadsafe(services.on_lease_lost, lease)
            raise StaleLease("this worker has lost its lease on the job")

    async def _read_history(self) -> tuple[list[Step], list[SentEvent]]:
        jobs, (tenant, job_id, _) = self._services.engine.store.jobs, self.claim.lease
        return await jobs.list_steps(tenant, job_id), await jobs.list_sent_events(tenant, job_id)

    async def _read_children(self, ids: tuple[str, ...]) -> list[ChildStatus]:
        engine, tenant = self._services.engine, self.claim.lease.tenant
        wanted = [(tenant, job_id) for job_id in dict.fromkeys(ids)]
        jobs: dict[str, Job] = {job.id: job for job in await engine.store.jobs.get_many(wanted)}
        results = {
            job.id: await engine.payload_store.read(job.result)
            for job in jobs.values()
            if job.result is not None
        }
        found = (jobs.get(job_id) for job_id in ids)
        return [
            ChildStatus(None)
            if job is None
            else ChildStatus(job.state, results.get(job.id), job.error)
            for job in found
        ]

    async def _read_payload(self, reference: str) -> str:
        # A handler in a process may read the payloads of its own job only.
        job_id = self.claim.lease.job_id
        if not read_reference(reference).key.startswith(f"jobs/{job_id}/"):
            raise NotFound(f"job {job_id} has no such payload")
        return await self._services.engine.payload_store.read(reference)

    async def _spawn(self, request: SpawnJob) -> str:
        engine = self._services.engine
        child = engine.child_of(self.claim, request.kind, request.input)
        [child] = await retry_until_available(lambda: engine.payload_store.offload_inputs([child]))
        step = replace(request.step, result=json.dumps(child.id))
        await self._write_large(self._report_with((*request.steps, step), (child,)))
        engine.metrics.submitted(child.kind)
        return child.id

    async def _fetch_upload(self, upload_id: str) -> Path:
        engine, lease = self._services.engine, self.claim.lease
        upload = await engine.store.files.get_upload(lease.tenant, upload_id, lease.job_id)
        if upload is None:
            raise NotFound(f"job {lease.job_id} has no upload {upload_id}")
        folder = await asyncio.to_thread(
            self._services.scratch.folder_of, lease, upload_id, self.inbox
        )
        # Tools look at the file's name. It has a folder of its own because names can collide.
        path = folder / (upload.name or "file")
        if not path.exists():
            part = path.with_name(path.name[:200] + ".part")
            await engine.payload_store.fetch(upload, part)
            part.replace(path)
        return path

    async def _serve(self, name: str, body: bytes) -> bytes:
        claim, confinement = self.claim, self.kind.confinement
        if confinement is None or confinement.service is None:
            raise NotFound(f"kind {claim.kind!r} has no service")
        job = ServedJob(claim.lease.tenant, claim.lease.job_id, claim.input)
        return await confinement.service(job, name, body)
