"""Every error that Coatcheck raises on purpose.

CoatcheckError                 has a stable `code` and a message for people
├── InvalidInput               the request is not valid; nothing was changed
│   ├── UnknownKind            no such kind of job is declared
│   ├── InvalidPayload         the input does not match the kind's type (`problems` says where)
│   │   └── EgressDenied       the egress policy forbids this address
│   ├── TooLarge               the body or file exceeds its size limit
│   └── ConfigurationError     a setting, an app reference or a declaration is wrong
├── Unauthorized               the credential is missing or invalid
│   ├── Forbidden              the credential is valid, but does not allow this
│   ├── PaymentRequired        the tenant has not paid
│   └── TenantSuspended        the tenant is suspended
├── QuotaExceeded              the tenant has reached a quota (`quota`, `retry_after_s`)
│   └── TooManyOpen            the tenant has too many requests or uploads open
├── NotFound                   no such job, or it belongs to another tenant
│   └── Gone                   the job existed; its retention has passed
├── KeyReused                  the idempotency key belongs to another request
├── Conflict                   the job's state does not allow this
│   ├── IdTaken                another job has this public id
│   ├── AccessChanged          keys or tenants have changed since the caller was authorized
│   ├── InputGone              the job's input is no longer stored
│   ├── UploadGone             the upload has expired, or belongs to another job
│   ├── UploadInProgress       an upload with this idempotency key is in progress (`retry_after_s`)
│   ├── NoSignedUploads        the blob store does not support signed upload URLs
│   ├── StaleLease             the worker no longer holds the job's lease
│   └── IllegalTransition      a bug: a transition that does not exist
├── StoreError                 the store could not perform the operation
│   ├── StoreUnavailable       it may work later: disk full, locked, unreachable
│   │   ├── BlobStoreUnavailable  the blob store is unavailable
│   │   └── KeyMissing         the data is encrypted with a key that is not configured here
│   ├── BlobGone               the bytes of a payload or file no longer exist
│   ├── BlobDamaged            the bytes of a payload or file are not those that were written
│   ├── SchemaTooNew           a newer release has migrated this database
│   └── SchemaOutdated         the database needs `coatcheck migrate` first
├── EgressFailed               an outgoing call failed or timed out
├── ServerError                raised by the client: the request to the server failed
│   ├── Unreachable            the server cannot be reached
│   ├── Overloaded             the server accepts no more requests from this client for now
│   └── UnexpectedAnswer       the server failed, or is not a Coatcheck server
└── JobError                   raised by the client that waited: the job has no usable result
    ├── JobFailed              the job failed (`error_code`, `message`, `detail`)
    ├── JobCancelled           the job was cancelled
    ├── TimedOut               the wait timed out; the job continues
    └── UnexpectedResult       the job succeeded, but its result does not match the expected type

StepFailed                     raised *in* a handler: one of its steps has failed for good
StepsChanged                   the handler's code does not match the job's recorded steps

HandlerSignal                  raised *by* a handler to control its own job
├── Retry                      try again later
└── Fail                       fail at once, without further attempts
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class CoatcheckError(Exception):
    """The base class of all errors. `code` is stable; the message is for people."""

    code: ClassVar[str] = "error"


class InvalidInput(CoatcheckError):
    """The request is not valid. Nothing was changed."""

    code = "invalid-input"


class UnknownKind(InvalidInput):
    """No such kind of job is declared."""

    code = "unknown-kind"
    problems = (("/kind", "this kind is not declared"),)


class InvalidPayload(InvalidInput):
    """The input does not match its type; `problems` are (JSON pointer, detail) pairs."""

    code = "invalid-payload"

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class EgressDenied(InvalidPayload):
    """The egress policy forbids calling this address."""

    code = "egress-denied"


class TooLarge(InvalidInput):
    """The body or file exceeds its size limit."""

    code = "too-large"


class ConfigurationError(InvalidInput):
    """A setting, an app reference or a declaration is wrong."""

    code = "configuration"


class Unauthorized(CoatcheckError):
    """The credential is missing or invalid."""

    code = "unauthorized"


class Forbidden(Unauthorized):
    """The credential is valid, but does not allow this request."""

    code = "forbidden"


class PaymentRequired(Unauthorized):
    """The tenant of this key has not paid."""

    code = "payment-required"


class TenantSuspended(Unauthorized):
    """The tenant of this key is suspended."""

    code = "suspended"


class QuotaExceeded(CoatcheckError):
    """The tenant has reached a quota. Retry after `retry_after_s`."""

    code = "quota-exceeded"

    def __init__(
        self, message: str, quota: str, limit: int, retry_after_s: int, window_s: int | None
    ) -> None:
        super().__init__(message)
        self.quota = quota
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.window_s = window_s  # None: the quota is not a rate


class TooManyOpen(QuotaExceeded):
    """The tenant has too many requests or uploads open at once."""

    code = "too-many-open"


class NotFound(CoatcheckError):
    """The job does not exist, or belongs to another tenant."""

    code = "not-found"


class Gone(NotFound):
    """The job existed, and its retention has passed."""

    code = "gone"


class KeyReused(CoatcheckError):
    """The idempotency key was used before, for another request."""

    code = "idempotency-key-reused"


class Conflict(CoatcheckError):
    """The job's state does not allow this."""

    code = "conflict"


class IdTaken(Conflict):
    """Another job already has this public id."""

    code = "id-taken"


class InputGone(Conflict):
    """The job's input is no longer stored."""

    code = "input-gone"


class UploadInProgress(Conflict):
    """Another upload with the same idempotency key is in progress."""

    code = "upload-under-way"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NoSignedUploads(Conflict):
    """The blob store does not support signed upload URLs."""

    code = "no-signed-uploads"


class UploadGone(Conflict):
    """The upload has expired, or belongs to another job."""

    code = "upload-gone"


class AccessChanged(Conflict):
    """Keys or tenants have changed since the caller was authorized. Authorize it again."""

    code = "access-changed"


class StaleLease(Conflict):
    """The worker no longer holds the job's lease: another worker has the job, or it has
    finished.
    """

    code = "stale-lease"


class IllegalTransition(Conflict):
    """The transition does not exist. This is a bug."""

    code = "illegal-transition"


class StoreError(CoatcheckError):
    """The store could not perform the operation."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store is unavailable for now: a full disk, a lock, an outage."""

    code = "store-unavailable"


class BlobStoreUnavailable(StoreUnavailable):
    """The blob store is unavailable for now."""

    code = "blob-store-unavailable"


class KeyMissing(StoreUnavailable):
    """The data is encrypted with a key that is not configured here."""

    code = "encryption-key-missing"


class BlobGone(StoreError):
    """The bytes of a payload or file no longer exist."""

    code = "blob-gone"


class BlobDamaged(StoreError):
    """The bytes of a payload or file are not those that were written."""

    code = "blob-damaged"


class SchemaTooNew(StoreError):
    """A newer release has migrated this database. This release must not use it."""

    code = "schema-too-new"


class SchemaOutdated(StoreError):
    """The database needs `coatcheck migrate` before this release can use it."""

    code = "schema-outdated"


class EgressFailed(CoatcheckError):
    """An outgoing call failed, or timed out."""

    code = "egress-failed"


class ServerError(CoatcheckError):
    """The client's request to the server failed."""

    code = "server"


class Unreachable(ServerError):
    """The server cannot be reached.

    A submit may have arrived nevertheless. Repeated with `idempotency_key`, it returns the same
    job.
    """

    code = "unreachable"

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class Overloaded(ServerError):
    """The server accepts no more requests from this client for now."""

    code = "overloaded"


class UnexpectedAnswer(ServerError):
    """The server failed, or is not a Coatcheck server."""

    code = "unexpected-answer"


class JobError(CoatcheckError):
    """The job that a client waited for has no usable result."""

    code = "job"

    def __init__(self, job_id: str, message: str) -> None:
        super().__init__(message)
        self.job_id = job_id


class JobFailed(JobError):
    """The job failed; `error_code`, `message`, `detail` and `reason` say how."""

    code = "job-failed"

    def __init__(
        self,
        job_id: str,
        error_code: str,
        message: str,
        reason: str | None,
        detail: str | None = None,
    ) -> None:
        super().__init__(job_id, f"job {job_id} failed ({error_code}): {message}")
        self.error_code = error_code
        self.message = message
        self.reason = reason
        self.detail = detail


class JobCancelled(JobError):
    """The job was cancelled."""

    code = "job-cancelled"


class TimedOut(JobError):
    """The wait for the job timed out. The job itself continues."""

    code = "timed-out"


class UnexpectedResult(JobError):
    """The job succeeded, but its result does not match the expected type.

    `problems` are (JSON pointer, detail) pairs; `result` is the actual result.
    """

    code = "unexpected-result"

    def __init__(
        self, job_id: str, message: str, problems: Sequence[tuple[str, str]], result: object
    ) -> None:
        super().__init__(job_id, message)
        self.problems = tuple(problems)
        self.result = result


class StepFailed(CoatcheckError):
    """A step of the handler has failed for good.

    Its cause is the original exception in the first run only. A replay raises StepFailed without
    it, so catch StepFailed and not the cause.
    """

    code = "step-failed"

    def __init__(self, step: str, error_code: str, message: str) -> None:
        super().__init__(f"step {step!r} failed: {message}")
        self.step = step
        self.error_code = error_code
        self.message = message


class StepsChanged(CoatcheckError):
    """The handler's code does not match the steps that its job has recorded."""

    code = "steps-changed"


class HandlerSignal(Exception):
    """Raised by a handler to control its own job."""


class Retry(HandlerSignal):
    """Try again later: after `after` seconds, or with the kind's backoff.

    With `counts=False`, the attempt is not counted. Use it if a service that the job needs could
    not be reached and nothing was done.
    """

    def __init__(
        self,
        message: str = "the handler requested a retry",
        after: float | None = None,
        *,
        counts: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.after = after
        self.counts = counts


class Fail(HandlerSignal):
    """Fail at once, even if attempts are left."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
