"""Jobs and workers of a store without encryption keys.

Texts are stored in clear. A message that begins like an encrypted text is escaped, because a store
that is opened with keys later would take it for one. All other verbs are the inner part's own bound
methods, so they cost no extra call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coatcheck.crypto.encryption import PREFIX, escape_envelope
from coatcheck.model.job import Failure, JobInsert, Lease
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released
from coatcheck.model.step import Step
from coatcheck.store.jobs import FinishedJob, JobStore
from coatcheck.store.workers import Report, Settlement, WorkerStore


class PlainJobs:
    """The verbs on jobs, with messages escaped."""

    def __init__(self, jobs: JobStore) -> None:
        self._jobs = jobs
        self.submit = jobs.submit
        self.submit_batch = jobs.submit_batch
        self.find_submission = jobs.find_submission
        self.get = jobs.get
        self.get_many = jobs.get_many
        self.list_jobs = jobs.list_jobs
        self.get_input = jobs.get_input
        self.list_events = jobs.list_events
        self.list_steps = jobs.list_steps
        self.list_sent_events = jobs.list_sent_events
        self.cancel = jobs.cancel
        self.send_event = jobs.send_event
        self.resume = jobs.resume
        self.fork = jobs.fork
        self.delete = jobs.delete

    async def submit_finished(
        self, job: JobInsert, finished: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Write a job in its terminal state."""
        report = None if finished.report is None else _escape_report(finished.report)
        outcome = finished.outcome
        if isinstance(outcome, GaveUp):
            outcome = replace(outcome, error=_escape_failure(outcome.error))
        escaped = finished._replace(outcome=outcome, report=report)
        await self._jobs.submit_finished(job, escaped, now, epoch)


class PlainWorkers:
    """The verbs of workers, with messages escaped."""

    def __init__(self, workers: WorkerStore) -> None:
        self._workers = workers
        self.register_worker = workers.register_worker
        self.heartbeat = workers.heartbeat
        self.list_workers = workers.list_workers
        self.remove_worker = workers.remove_worker
        self.claim = workers.claim
        self.get_limit_usage = workers.get_limit_usage
        self.list_held_jobs = workers.list_held_jobs

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write a report of a running job."""
        return await self._workers.report(lease, _escape_report(report), now)

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """Settle attempts."""
        escaped = [
            Settlement(
                lease, _escape_outcome(outcome), None if report is None else _escape_report(report)
            )
            for lease, outcome, report in settlements
        ]
        return await self._workers.settle(escaped, now)


def _escape_failure(error: Failure) -> Failure:
    if not error.message.startswith(PREFIX):
        return error
    return replace(error, message=escape_envelope(error.message))


def _escape_outcome(outcome: Outcome) -> Outcome:
    match outcome:
        case GaveUp(error) | Errored(error) | Released(_, error) if error is not None:
            return replace(outcome, error=_escape_failure(error))
    return outcome


def _escape_report(report: Report) -> Report:
    progress = report.progress
    if progress is not None and progress.message is not None:
        progress = replace(progress, message=escape_envelope(progress.message))
    if not report.steps and progress is report.progress:
        return report
    return report._replace(progress=progress, steps=tuple(map(_escape_step, report.steps)))


def _escape_step(step: Step) -> Step:
    return step if step.error is None else replace(step, error=_escape_failure(step.error))
