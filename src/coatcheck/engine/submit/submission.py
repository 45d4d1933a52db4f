"""Validation of a submission, which yields a job that can be written."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from coatcheck.engine.auth import Admission
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.errors import InvalidPayload, UnknownKind
from coatcheck.model.internal import BY_CLIENT
from coatcheck.model.job import API_SURFACE, DEFAULT_TENANT, OWNER_LABEL, Job, JobInsert, Terms
from coatcheck.model.kind import Kind
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.state import State
from coatcheck.model.upload import MOST_OF_A_JOB, NOTED

PRIORITIES = range(-1000, 1001)
MAX_ATTEMPTS = range(1, 1001)
LONGEST_DEADLINE_S = 10 * 365 * 86_400
LABELS_AT_MOST = 32
# The error for a batch that is wrong throughout does not list every job.
PROBLEMS_AT_MOST = 100
LABEL_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,62}")
LABEL_VALUE_LENGTH = 255
NO_UPLOADS_HERE = "an upload belongs to one job, which is submitted with it"


class Submission(NamedTuple):
    """A submitted job. A field that is None gets its kind's default. `input` is a JSON text."""

    kind: str
    input: str = "null"
    queue: str | None = None
    priority: int = 0
    labels: Mapping[str, str] = MappingProxyType({})
    run_at: int | None = None
    deadline_s: float | None = None
    max_attempts: int | None = None
    tenant: str = DEFAULT_TENANT
    surface: str = API_SURFACE
    public_id: str | None = None
    correlation_id: str | None = None
    traceparent: str | None = None
    webhook: WebhookSpec | None = None
    admission: Admission | None = None  # None: no admission check
    job_id: str | None = None  # chosen by a surface whose input depends on it
    trusted: bool = False  # built by a surface, so the input may have internal fields


class Prepared(NamedTuple):
    """A job that can be written, and the ids of the uploads that its input names."""

    job: JobInsert
    uploads: Sequence[str]


def prepare(submission: Submission, kinds: Mapping[str, Kind], job_id: str, now: int) -> JobInsert:
    """Validate a submission that names no uploads; raises before anything is written."""
    job, uploads = prepare_with_uploads(submission, kinds, job_id, now)
    if uploads:
        raise InvalidPayload(NO_UPLOADS_HERE, [("/input", NO_UPLOADS_HERE)])
    return job


def prepare_with_uploads(
    submission: Submission, kinds: Mapping[str, Kind], job_id: str, now: int
) -> Prepared:
    """Validate a submission against its kind and the limits; raises before anything is written."""
    kind = kinds.get(submission.kind)
    if kind is None:
        known = ", ".join(sorted(kinds)) or "none"
        raise UnknownKind(f"there is no kind {submission.kind!r}; declared here: {known}")
    problems = _problems(submission)
    if problems:
        raise InvalidPayload(f"{problems[0][0]}: {problems[0][1]}", problems)
    try:
        uploads: list[str] = []
        context = {NOTED: uploads, BY_CLIENT: not submission.trusted}
        value = kind.read_input(submission.input, context)
        limit_key = kind.key_of(value)
    except InvalidPayload as error:
        raise InvalidPayload(
            str(error), [(f"/input{place}", what) for place, what in error.problems]
        ) from error
    terms = kind.terms
    if submission.max_attempts is not None:
        terms = terms._replace(max_attempts=submission.max_attempts)
    if submission.deadline_s is not None:
        terms = terms._replace(deadline_at=now + round(submission.deadline_s * 1000))
    input_until = None
    if kind.payload_ttl_ms is not None or kind.drop_input_on_end:
        terms, input_until = _with_payload_ttl(kind, terms, now)
    if uploads:
        uploads = list(dict.fromkeys(uploads))
        if len(uploads) > MOST_OF_A_JOB:
            words = f"a job takes at most {MOST_OF_A_JOB} uploads"
            raise InvalidPayload(words, [("/input", words)])
    job = JobInsert(
        id=job_id,
        kind=kind.name,
        input=submission.input,
        created_at=now,
        run_at=now if submission.run_at is None else submission.run_at,
        tenant=submission.tenant,
        surface=submission.surface,
        public_id=submission.public_id,
        queue=submission.queue or kind.queue,
        priority=submission.priority,
        terms=terms,
        labels=json.dumps(dict(submission.labels)) if submission.labels else "{}",
        limit_key=limit_key,
        correlation_id=submission.correlation_id,
        traceparent=submission.traceparent,
        input_until=input_until,
    )
    return Prepared(job, uploads)


def _with_payload_ttl(kind: Kind, terms: Terms, now: int) -> tuple[Terms, int | None]:
    """Return terms under which the job finishes before its input is dropped, and when that is."""
    if kind.payload_ttl_ms is None:
        return terms, 0
    until = now + kind.payload_ttl_ms
    deadline = until if terms.deadline_at is None else min(until, terms.deadline_at)
    return terms._replace(deadline_at=deadline), 0 if kind.drop_input_on_end else until


def prepare_all(
    submissions: Sequence[Submission], kinds: Mapping[str, Kind], ids: Sequence[str], now: int
) -> list[Prepared]:
    """Validate every submission of a batch; raises one error with a pointer to each problem."""
    jobs, problems = [], []
    for number, (asked, job_id) in enumerate(zip(submissions, ids, strict=True)):
        try:
            jobs.append(prepare_with_uploads(asked, kinds, job_id, now))
        except (InvalidPayload, UnknownKind) as error:
            problems += [(f"/jobs/{number}{place}", what) for place, what in error.problems]
            if len(problems) >= PROBLEMS_AT_MOST:
                break
    if problems:
        where = "; ".join(f"{place}: {detail}" for place, detail in problems[:3])
        raise InvalidPayload(f"nothing was submitted: {where}", problems[:PROBLEMS_AT_MOST])
    return jobs


def _problems(asked: Submission) -> list[tuple[str, str]]:
    problems = []
    if asked.queue is not None and not is_name(asked.queue):
        problems.append(("/queue", NAME_RULE))
    if asked.priority not in PRIORITIES:
        problems.append(("/priority", "must be a whole number between -1000 and 1000"))
    if asked.max_attempts is not None and asked.max_attempts not in MAX_ATTEMPTS:
        problems.append(("/max_attempts", "must be a whole number between 1 and 1000"))
    if asked.deadline_s is not None and not 0 < asked.deadline_s <= LONGEST_DEADLINE_S:
        problems.append(("/deadline_s", "must be seconds, more than 0 and less than ten years"))
    if len(asked.labels) > LABELS_AT_MOST:
        problems.append(("/labels", f"a job carries at most {LABELS_AT_MOST} labels"))
    if OWNER_LABEL in asked.labels and not asked.trusted:
        problems.append((f"/labels/{OWNER_LABEL}", "this label is set by the server"))
    for key, value in asked.labels.items():
        if not LABEL_KEY.fullmatch(key):
            problems.append(("/labels", "a key has 1 to 63 letters, digits, and _ . / -"))
        elif len(value) > LABEL_VALUE_LENGTH:
            problems.append((f"/labels/{key.replace('/', '~1')}", "at most 255 characters"))
    return problems


def as_submitted(new: JobInsert) -> Job:
    """Return a new job in its state right after the insert, without reading it back."""
    return Job(
        tenant=new.tenant,
        id=new.id,
        surface=new.surface,
        public_id=new.public_id or new.id,
        kind=new.kind,
        queue=new.queue,
        state=State.QUEUED,
        phase=None,
        reason=None,
        attempt=0,
        priority=new.priority,
        fence=0,
        worker=None,
        terms=new.terms,
        created_at=new.created_at,
        run_at=new.run_at,
        started_at=None,
        finished_at=None,
        expires_at=None,
        cancel_requested=False,
        last_event=1,
        progress=None,
        error=None,
        result=None,
        limit_key=new.limit_key,
        correlation_id=new.correlation_id,
        traceparent=new.traceparent,
        labels={} if new.labels == "{}" else json.loads(new.labels),
    )
