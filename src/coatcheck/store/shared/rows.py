"""Conversion between rows and values. Only this module depends on the layout of rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic_core import to_json

from coatcheck.ids import ulid_time
from coatcheck.model.access import ApiKey, Quotas, Tenant, TenantStatus
from coatcheck.model.artifact import Artifact
from coatcheck.model.audit import Action, AuditEntry, Resource
from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Failure, Job, JobInsert, Progress, Terms
from coatcheck.model.schedule import CatchUp, Overlap, Schedule, ScheduleDefinition, Timing
from coatcheck.model.state import Reason, State
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.model.transition import JobStatus
from coatcheck.model.webhook import (
    OWN,
    Callback,
    DeliveryAttempt,
    DeliveryKey,
    DeliveryState,
    WebhookDelivery,
    WebhookEndpoint,
)
from coatcheck.model.worker import WorkerInfo
from coatcheck.store.audit import AuditFilter
from coatcheck.store.base import QueueStatus, Report
from coatcheck.store.webhooks import DeliveryClaim

Row = Sequence[Any]

_STATES = {str(state): state for state in State}
_REASONS: dict[str | None, Reason | None] = {None: None, **{str(r): r for r in Reason}}

# The states that count for a tenant's quotas of waiting and running jobs, and the rate period.
WAITING = [str(State.QUEUED), str(State.WAITING)]
RUNNING = [str(State.RUNNING)]
MINUTE_MS = 60_000
_AFTER_EVERY_ULID = "8"  # a ULID begins with 0 to 7

# The columns of `status_of`: the rowid, then a JobStatus, then the Terms, then the kind.
STATUS_FIELDS = len(JobStatus._fields)


# The columns of a new job, in the order of `new_job_row`.
NEW_JOB_COLUMNS = (
    *("tenant", "id", "surface", "public_id", "kind", "queue", "priority", "limit_key", "labels"),
    *("correlation_id", "traceparent", "forked_from", "created_at"),
    *Terms._fields,
    *JobStatus._fields,
)


# The position of the status in a whole job's row; progress and result follow.
_STATUS = NEW_JOB_COLUMNS.index("state")
_PROGRESS = _STATUS + STATUS_FIELDS


def status_row(status: JobStatus) -> tuple[Any, ...]:
    """Return a status as a row, in column order."""
    if status.error is None:
        return status
    return status._replace(error=encode_failure(status.error))  # type: ignore[arg-type]  # used as a row


def read_status(row: Row) -> JobStatus:
    """Read a status from its columns."""
    error = row[12]
    return JobStatus(
        _STATES[row[0]],
        row[1] == 1,
        row[2],
        _REASONS[row[3]],
        row[4],
        row[5],
        row[6],
        row[7],
        row[8],
        row[9],
        row[10],
        row[11] == 1,
        None if error is None else decode_failure(error),
        row[13],
    )


def new_job_row(job: JobInsert, status: JobStatus) -> tuple[Any, ...]:
    """Return a new job as a row, in the order of `insert_job`."""
    return (
        job.tenant,
        job.id,
        job.surface,
        job.public_id,
        job.kind,
        job.queue,
        job.priority,
        job.limit_key,
        job.labels,
        job.correlation_id,
        job.traceparent,
        job.forked_from,
        job.created_at,
        *job.terms,
        *status,
    )


def read_job(row: Row) -> Job:
    """Read a whole job. Its version follows its progress; result and artifacts are last."""
    status = read_status(row[_STATUS:_PROGRESS])
    progress, version = row[_PROGRESS : _PROGRESS + 2]
    result, artifacts = row[-2:]
    return Job(
        tenant=row[0],
        id=row[1],
        surface=row[2],
        public_id=row[3] or row[1],
        kind=row[4],
        queue=row[5],
        priority=row[6],
        limit_key=row[7],
        labels=json.loads(row[8]),
        correlation_id=row[9],
        traceparent=row[10],
        forked_from=row[11],
        created_at=row[12],
        terms=Terms(*row[13:_STATUS]),
        state=status.state,
        phase=status.phase,
        reason=status.reason,
        attempt=status.attempt,
        fence=status.fence,
        worker=status.worker,
        run_at=status.run_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        expires_at=status.expires_at,
        cancel_requested=status.cancel_requested,
        error=status.error,
        last_event=status.last_event,
        progress=None if progress is None else Progress(**json.loads(progress)),
        version=version,
        result=result,
        artifacts=()
        if artifacts == "[]"
        else tuple(Artifact(*each) for each in json.loads(artifacts)),
    )


def step_row(tenant: str, job_id: str, step: Step) -> tuple[Any, ...]:
    """Return a step as a row, in the order of `put_step`."""
    return (
        tenant,
        job_id,
        step.seq,
        *step.id,
        step.state,
        step.started_at,
        step.finished_at,
        step.attempts,
        step.result,
        None if step.error is None else encode_failure(step.error),
        step.wake_at,
        step.overlapped,
        step.survived,
    )


def read_step(row: Row) -> Step:
    """Read a step from the columns of `step_row`, without tenant and job id."""
    seq, op, name, key, occurrence, state, started, finished, attempts, result, error = row[:11]
    return Step(
        seq=seq,
        id=StepId(Op(op), name, key, occurrence),
        state=StepState(state),
        started_at=started,
        finished_at=finished,
        attempts=attempts,
        result=result,
        error=None if error is None else decode_failure(error),
        wake_at=row[11],
        overlapped=bool(row[12]),
        survived=bool(row[13]),
    )


def step_entry(step: Step) -> str:
    """Return the data of the event that records a step."""
    told = {"seq": step.seq, "op": step.id.op, "name": step.id.name, "key": step.id.key}
    if step.id.key is None:
        told["occurrence"] = step.id.occurrence
    told |= {"state": step.state, "attempts": step.attempts}
    if step.error is not None:
        told["error"] = {"code": step.error.code}
    return to_json(told).decode()


def schedule_row(schedule: Schedule) -> tuple[Any, ...]:
    """Return a schedule as a row, in column order."""
    says = schedule.definition
    timing = says.timing
    return (
        *(schedule.tenant, says.name, schedule.revision, says.kind, says.input),
        *(timing.cron, timing.every_ms, timing.start_at, timing.timezone),
        *(says.queue, says.priority, says.labels, says.deadline_s, says.max_attempts),
        *(says.catch_up, says.overlap, schedule.declared, schedule.paused),
        *(schedule.next_at, schedule.last_at, schedule.last_job, schedule.problem),
        *(schedule.created_at, schedule.updated_at),
    )


def read_schedule(row: Row) -> Schedule:
    """Read a schedule from its columns."""
    tenant, name, revision, kind, input_, cron, every_ms, start_at, timezone = row[:9]
    queue, priority, labels, deadline_s, max_attempts, catch_up, overlap = row[9:16]
    declared, paused, next_at, last_at, last_job, problem, created_at, updated_at = row[16:]
    return Schedule(
        tenant=tenant,
        definition=ScheduleDefinition(
            name=name,
            kind=kind,
            timing=Timing(cron, every_ms, start_at, timezone),
            input=input_,
            queue=queue,
            priority=priority,
            labels=labels,
            deadline_s=deadline_s,
            max_attempts=max_attempts,
            catch_up=CatchUp(catch_up),
            overlap=Overlap(overlap),
        ),
        declared=bool(declared),
        revision=revision,
        paused=bool(paused),
        next_at=next_at,
        last_at=last_at,
        last_job=last_job,
        problem=problem,
        created_at=created_at,
        updated_at=updated_at,
    )


def own_endpoint(job: JobInsert, webhook: Callback) -> WebhookEndpoint:
    """Return the endpoint for a new job's own webhook."""
    return WebhookEndpoint(job.tenant, OWN, *webhook, created_at=job.created_at, job_id=job.id)


def endpoint_row(endpoint: WebhookEndpoint) -> tuple[Any, ...]:
    """Return an endpoint as a row, in column order."""
    return (
        *(endpoint.tenant, endpoint.job_id, endpoint.id, endpoint.url, endpoint.lane),
        *(endpoint.events, endpoint.created_at, endpoint.description),
        *(endpoint.failing_since, endpoint.disabled_at, endpoint.disabled_why),
    )


def read_endpoint(row: Row) -> WebhookEndpoint:
    """Read an endpoint from its columns."""
    tenant, job_id, id_, url, lane, events, created_at, description = row[:8]
    return WebhookEndpoint(
        tenant, id_, url, lane, events, created_at, job_id, description, row[8], row[9], row[10]
    )


def read_delivery(row: Row) -> WebhookDelivery:
    """Read a delivery from (its key, type, at, event, state, attempts, tries, due_at, log)."""
    log = () if row[11] == "[]" else tuple(DeliveryAttempt(*each) for each in json.loads(row[11]))
    type_, at, event, state, attempts, tries, due_at = row[4:11]
    key = DeliveryKey(*row[:4])
    return WebhookDelivery(
        key, type_, at, event, DeliveryState(state), attempts, tries, due_at, log
    )


def read_delivery_claim(row: Row) -> DeliveryClaim:
    """Read a claimed delivery: the delivery, its lane, facts about its job, its endpoint."""
    endpoint = None if row[15] is None else read_endpoint(row[15:])
    return DeliveryClaim(read_delivery(row[:12]), row[12], endpoint, row[13], row[14])


def write_log(log: Sequence[DeliveryAttempt]) -> str:
    """Encode the attempts of a delivery as JSON for their column."""
    return json.dumps(log)


def read_event(row: Row) -> JobEvent:
    """Read an event from (seq, type, at, data)."""
    return JobEvent(row[0], EventType(row[1]), row[2], row[3])


def encode_failure(failure: Failure) -> str:
    """Encode a failure as JSON for the error column."""
    return json.dumps(
        {
            "code": failure.code,
            "message": failure.message,
            "detail": failure.detail,
            "retryable": failure.retryable,
        }
    )


def decode_failure(text: str) -> Failure:
    """Decode the error column."""
    return Failure(**json.loads(text))


def encode_progress(progress: Progress) -> str:
    """Encode progress as JSON for its column."""
    return json.dumps(_progress_fields(progress))


def report_entries(report: Report) -> list[tuple[EventType, str]]:
    """Return the events that a report adds: its own, then one for progress and phase."""
    entries = [(event.type, event.data) for event in report.events]
    if report.progress is not None or report.phase is not None:
        told = {} if report.progress is None else _progress_fields(report.progress)
        if report.phase is not None:
            told["phase"] = report.phase
        entries.append((EventType.PROGRESS, json.dumps(told)))
    return entries


def phase_told(type_: EventType, data: str) -> str | None:
    """Return the webhook data for an event that names a new phase; None for other events."""
    if type_ is not EventType.PROGRESS or '"phase": ' not in data:  # escaped inside a string
        return None
    return json.dumps({"phase": json.loads(data)["phase"]})


def _progress_fields(progress: Progress) -> dict[str, Any]:
    return {"done": progress.done, "total": progress.total, "message": progress.message}


def tenant_row(tenant: Tenant) -> tuple[Any, ...]:
    """Return a tenant as a row. Its quotas include only those that are set."""
    limits = {name: value for name, value in tenant.quotas._asdict().items() if value is not None}
    status = str(tenant.status)
    return (tenant.name, status, json.dumps(limits), tenant.created_at, tenant.updated_at)


def read_tenant(row: Sequence[Any]) -> Tenant:
    """Read a tenant from a row of `tenant_row`."""
    name, status, quotas, created_at, updated_at = row
    limits = Quotas(**json.loads(quotas))
    return Tenant(name, TenantStatus(status), limits, created_at, updated_at)


def key_row(key: ApiKey) -> tuple[Any, ...]:
    """Return a key as a row."""
    return (*key[:3], json.dumps(key.scopes), *key[4:])


def read_key(row: Sequence[Any]) -> ApiKey:
    """Read a key from a row of `key_row`."""
    id_, tenant, digest, scopes, *others = row
    return ApiKey(id_, tenant, digest, tuple(json.loads(scopes)), *others)


def audit_values(which: AuditFilter) -> tuple[Any, ...]:
    """Return the values of an audit filter for the statements that list entries."""
    tenant = () if which.tenant is None else (which.tenant,)
    bounds = (which.since or "", which.before or _AFTER_EVERY_ULID)
    wanted = (which.actor, which.action, which.resource, which.resource_id)
    return (*tenant, *bounds, *wanted, which.limit)


def read_audit(row: Sequence[Any]) -> AuditEntry:
    """Read an audit entry."""
    tenant, id_, actor, action, resource, resource_id, detail = row
    return AuditEntry(tenant, id_, actor, Action(action), Resource(resource), resource_id, detail)


def read_worker(row: Row) -> WorkerInfo:
    """Read a registered worker."""
    id_, host, pid, kinds, slots, started_at, beats = row
    return WorkerInfo(id_, host, pid, tuple(json.loads(kinds)), slots, started_at, beats)


def read_queue(row: Row) -> QueueStatus:
    """Read the status of a queue. The id of its oldest claimable job gives the time."""
    name, paused, ready, delayed, running, oldest, concurrency = row
    since = None if oldest is None else ulid_time(oldest)
    return QueueStatus(name, bool(paused), ready, delayed, running, since, concurrency)
