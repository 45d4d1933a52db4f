"""Encrypt the values that are written to a store, and decrypt those that are read from it."""

from __future__ import annotations

import json
from dataclasses import replace

from coatcheck.crypto.encryption import PREFIX, Keyring
from coatcheck.model.event import EventType, JobEvent, NewJobEvent
from coatcheck.model.job import Failure, Job, JobInsert, Progress
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released, Succeeded
from coatcheck.model.payload import is_reference
from coatcheck.model.record import Record
from coatcheck.model.schedule import Schedule
from coatcheck.model.step import Step
from coatcheck.store.workers import Report


class ValueCipher:
    """Encrypts and decrypts the texts of users and handlers inside values."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    def encrypt(self, text: str, tenant: str) -> str:
        """Encrypt a payload, unless it is a reference to a blob."""
        return text if is_reference(text) else self._keys.encrypt(text, tenant)

    def encrypt_job(self, job: JobInsert) -> JobInsert:
        """Encrypt the input of a new job."""
        return job._replace(input=self.encrypt(job.input, job.tenant))

    def encrypt_record(self, record: Record) -> Record:
        """Encrypt the value of a record."""
        return replace(record, value=self._keys.encrypt(record.value, record.tenant))

    def _encrypt_failure(self, error: Failure, tenant: str) -> Failure:
        detail = None if error.detail is None else self._keys.encrypt(error.detail, tenant)
        return replace(error, message=self._keys.encrypt(error.message, tenant), detail=detail)

    def encrypt_terminal(self, outcome: Succeeded | GaveUp, tenant: str) -> Succeeded | GaveUp:
        """Encrypt the result or the error of a terminal outcome."""
        if isinstance(outcome, Succeeded):
            return Succeeded(self.encrypt(outcome.result, tenant))
        return replace(outcome, error=self._encrypt_failure(outcome.error, tenant))

    def encrypt_outcome(self, outcome: Outcome, tenant: str) -> Outcome:
        """Encrypt the result or the error of an outcome."""
        match outcome:
            case Succeeded() | GaveUp():
                return self.encrypt_terminal(outcome, tenant)
            case Errored(error) | Released(_, error) if error is not None:
                return replace(outcome, error=self._encrypt_failure(error, tenant))
        return outcome

    def encrypt_report(self, report: Report, tenant: str) -> Report:
        """Encrypt everything in a report that a handler wrote."""
        progress = report.progress
        if progress is not None and progress.message is not None:
            progress = replace(progress, message=self._keys.encrypt(progress.message, tenant))
        return report._replace(
            progress=progress,
            events=tuple(self._encrypt_event(event, tenant) for event in report.events),
            steps=tuple(self._encrypt_step(step, tenant) for step in report.steps),
            children=tuple(self.encrypt_job(child) for child in report.children),
            files=tuple(
                file._replace(content=self._keys.encrypt(file.content, tenant))
                for file in report.files
            ),
        )

    def _encrypt_event(self, event: NewJobEvent, tenant: str) -> NewJobEvent:
        if event.type is EventType.PROGRESS:  # only the name of a phase
            return event
        return NewJobEvent(event.type, self.encrypt(event.data, tenant))

    def _encrypt_step(self, step: Step, tenant: str) -> Step:
        if step.result is None and step.error is None:
            return step
        return replace(
            step,
            result=None if step.result is None else self.encrypt(step.result, tenant),
            error=None if step.error is None else self._encrypt_failure(step.error, tenant),
        )

    def _decrypt_failure(self, error: Failure | None, tenant: str) -> Failure | None:
        if error is None or not error.message.startswith(PREFIX):
            return error
        detail = None if error.detail is None else self._keys.decrypt_message(error.detail, tenant)
        return replace(
            error, message=self._keys.decrypt_message(error.message, tenant), detail=detail
        )

    def decrypt_job(self, job: Job) -> Job:
        """Decrypt the result, error and progress of a job."""
        if job.result is None and job.error is None and job.progress is None:
            return job
        return replace(
            job,
            result=None if job.result is None else self._keys.decrypt(job.result, job.tenant),
            error=self._decrypt_failure(job.error, job.tenant),
            progress=self._decrypt_progress(job.progress, job.tenant),
        )

    def _decrypt_progress(self, progress: Progress | None, tenant: str) -> Progress | None:
        if progress is None or progress.message is None:
            return progress
        return replace(progress, message=self._keys.decrypt_message(progress.message, tenant))

    def decrypt_event(self, event: JobEvent, tenant: str) -> JobEvent:
        """Decrypt the data of an event."""
        if event.type is EventType.PROGRESS and PREFIX in event.data:
            data = json.loads(event.data)
            if data.get("message") is not None:
                data["message"] = self._keys.decrypt_message(data["message"], tenant)
            return replace(event, data=json.dumps(data))
        if event.data.startswith(PREFIX):
            return replace(event, data=self._keys.decrypt(event.data, tenant))
        return event

    def decrypt_step(self, step: Step, tenant: str) -> Step:
        """Decrypt the result and error of a step."""
        if step.result is None and step.error is None:
            return step
        return replace(
            step,
            result=None if step.result is None else self._keys.decrypt(step.result, tenant),
            error=self._decrypt_failure(step.error, tenant),
        )

    def decrypt_record(self, record: Record) -> Record:
        """Decrypt the value of a record."""
        return replace(record, value=self._keys.decrypt(record.value, record.tenant))

    def decrypt_schedule(self, schedule: Schedule) -> Schedule:
        """Decrypt the input of a schedule."""
        text = self._keys.decrypt(schedule.definition.input, schedule.tenant)
        return _with_input(schedule, text)

    def encrypt_schedule(self, schedule: Schedule) -> Schedule:
        """Encrypt the input of a schedule."""
        return _with_input(schedule, self.encrypt(schedule.definition.input, schedule.tenant))


def _with_input(schedule: Schedule, text: str) -> Schedule:
    return replace(schedule, definition=replace(schedule.definition, input=text))
