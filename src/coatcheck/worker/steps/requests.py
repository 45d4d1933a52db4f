"""What handlers ask of their worker is answered here, on the worker's own loop.

One question need not go there: a step is written down from the handler's own loop. Each step of a
handler waits for that, and the way over the worker's loop and back takes as long as the statements.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

from coatcheck.engine.engine import Engine
from coatcheck.engine.payloads.large_steps import has_large_results, offload_step_results
from coatcheck.errors import NotFound, StaleLease
from coatcheck.model.confinement import ServedJob
from coatcheck.model.job import Job, JobInsert, Lease
from coatcheck.model.payload import read_reference
from coatcheck.model.step import SentEvent, Step
from coatcheck.store.base import Report
from coatcheck.worker.attempts.execution import Execution
from coatcheck.worker.attempts.reports import Reports
from coatcheck.worker.attempts.scratch import Scratch
from coatcheck.worker.failpoints import STEP_STORED, Probe
from coatcheck.worker.steps.effects import (
    AcquireResource,
    ChildStatus,
    FetchUpload,
    KeepArtifact,
    Question,
    ReadChildren,
    ReadHistory,
    ReadInput,
    ReadPayload,
    RecordSteps,
    Serve,
    SpawnJob,
)
from coatcheck.worker.store_retry import persist


class RequestHandler:
    """Answer requests of running handlers.

    While the store is down a request waits, except one that reads or writes bytes: it fails.
    """

    def __init__(
        self,
        engine: Engine,
        reports: Reports,
        lost: Callable[[Execution], None],
        probe: Probe,
        scratch: Scratch,
    ) -> None:
        self._engine = engine
        self._probe = probe
        self._loop = asyncio.get_running_loop()
        self._lost = lost
        self._scratch = scratch
        self.note = reports.note
        self.clock = engine.clock

    def ask(self, execution: Execution, question: Question) -> Future[Any]:
        """Answer, from any thread."""
        return asyncio.run_coroutine_threadsafe(self._answer(execution, question), self._loop)

    async def inquire(self, execution: Execution, question: Question) -> Any:
        """Answer, on the handler's loop."""
        if not isinstance(question, RecordSteps):
            return await asyncio.wrap_future(self.ask(execution, question))
        report = _said_with(execution, question.steps)
        if has_large_results(self._engine.payload_store, report.steps):
            writing = self._write_large(execution, report)
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(writing, self._loop))
        return await self._write(execution, report)

    async def _answer(self, execution: Execution, question: Question) -> Any:  # noqa: C901 - a case each
        lease = execution.claim.lease
        match question:
            case RecordSteps(steps):
                return await self._write_large(execution, _said_with(execution, steps))
            case ReadHistory():
                return await persist(lambda: self._history(lease))
            case ReadChildren(ids):
                return await persist(lambda: self._children(lease.tenant, ids))
            case SpawnJob():
                return await self._spawn(execution, question)
            case ReadInput():
                return await self._engine.payload_store.read(execution.claim.input)
            case ReadPayload(reference):
                return await persist(lambda: self._read(lease, reference))
            case KeepArtifact(name, data, content_type):
                return await self._engine.payload_store.save_artifact(
                    lease, name, data, content_type
                )
            case FetchUpload(upload_id):
                return await self._fetch(execution, upload_id)
            case AcquireResource(group, names):
                return await persist(
                    lambda: self._engine.resources.acquire_one(lease, group, names)
                )
            case Serve(name, body):
                return await self._serve(execution, name, body)

    async def _write_large(self, execution: Execution, report: Report) -> None:
        """Write a report some of whose steps may have to be kept apart."""
        payload_store, lease = self._engine.payload_store, execution.claim.lease
        if has_large_results(payload_store, report.steps):
            report = await persist(lambda: offload_step_results(payload_store, lease, report))
            self._probe(STEP_STORED)
        await self._write(execution, report)

    async def _write(self, execution: Execution, report: Report) -> None:
        lease, store, clock = execution.claim.lease, self._engine.store, self.clock
        if (earlier := execution.reporting) is not None:
            # There may be steps in it that come before these, and must not come to be missing.
            await asyncio.shield(asyncio.wrap_future(earlier))
        self._probe("worker.before_checkpoint")
        held = await persist(lambda: store.report(lease, report, clock.now()))
        self._probe("worker.after_checkpoint")
        if not held:
            self._loop.call_soon_threadsafe(self._lost, execution)
            raise StaleLease("the job is no longer this worker's")

    async def _read(self, lease: Lease, reference: str) -> str:
        # A handler in a process reads what is its own job's, and nothing else.
        if not read_reference(reference).key.startswith(f"jobs/{lease.job_id}/"):
            raise NotFound(f"this is not of job {lease.job_id}")
        return await self._engine.payload_store.read(reference)

    async def _serve(self, execution: Execution, name: str, body: bytes) -> bytes:
        claim, confinement = execution.claim, execution.kind.confinement
        if confinement is None or confinement.service is None:
            raise NotFound(f"kind {claim.kind!r} has no service")
        job = ServedJob(claim.lease.tenant, claim.lease.job_id, claim.input)
        return await confinement.service(job, name, body)

    async def _fetch(self, execution: Execution, upload_id: str) -> Path:
        lease = execution.claim.lease
        upload = await self._engine.store.get_upload(lease.tenant, upload_id, lease.job_id)
        if upload is None:
            raise NotFound(f"job {lease.job_id} was not given upload {upload_id}")
        within = execution.inbox
        folder = await asyncio.to_thread(self._scratch.folder_of, lease, upload_id, within)
        # By its own name, which tools look at; in a folder of its own, as two may have the same.
        path = folder / (upload.name or "file")
        if not path.exists():
            part = path.with_name(path.name[:200] + ".part")
            await self._engine.payload_store.fetch(upload, part)
            part.replace(path)
        return path

    async def _history(self, lease: Lease) -> tuple[list[Step], list[SentEvent]]:
        tenant, job_id, _ = lease
        store = self._engine.store
        return await store.steps(tenant, job_id), await store.messages(tenant, job_id)

    async def _spawn(self, execution: Execution, asked: SpawnJob) -> str:
        child = self._engine.child_of(execution.claim, asked.kind, asked.input)
        [child] = await persist(lambda: self._engine.payload_store.offload_inputs([child]))
        step = replace(asked.step, result=json.dumps(child.id))
        report = _said_with(execution, (*asked.steps, step), (child,))
        await self._write_large(execution, report)
        self._engine.metrics.submitted(child.kind)
        return child.id

    async def _children(self, tenant: str, ids: tuple[str, ...]) -> list[ChildStatus]:
        wanted = [(tenant, job_id) for job_id in dict.fromkeys(ids)]
        jobs: dict[str, Job] = {job.id: job for job in await self._engine.store.get_many(wanted)}
        results = {
            job.id: await self._engine.payload_store.read(job.result)
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


def _said_with(
    execution: Execution, steps: tuple[Step, ...], children: tuple[JobInsert, ...] = ()
) -> Report:
    """Return a report of steps; what the handler has said before them comes before, in its log."""
    said = execution.context.take_report()
    if said is None:
        return Report(steps=steps, children=children)
    return said._replace(steps=(*said.steps, *steps), children=children)
