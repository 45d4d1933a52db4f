"""Every error Coatcheck raises on purpose.

CoatcheckError                 has a stable `code` and a sentence for people
├── InvalidInput               what was asked for makes no sense; nothing was changed
│   ├── UnknownKind            no such kind of job is declared
│   ├── InvalidPayload         the input does not fit the kind's type (`problems` says where)
│   │   └── EgressDenied       an address that this server must not call
│   ├── TooLarge               more bytes than are taken
│   └── ConfigurationError     a setting, an app reference or a declaration is wrong
├── Unauthorized               no credential, a bad one, or one that may not do this
│   ├── Forbidden              a good one that may not do this
│   ├── PaymentRequired        its tenant has not paid
│   └── Suspended              its tenant is suspended
├── QuotaExceeded              the tenant has as much as it may have (`quota`, `retry_after_s`)
│   └── TooManyOpen            the tenant has as many requests or uploads open as it may
├── NotFound                   no such job (or it belongs to somebody else)
│   └── Gone                   it existed; its retention has passed
├── KeyReused                  an idempotency key that belongs to another request
├── Conflict                   the job is not in a state that allows this
│   ├── IdTaken                another job has that public id
│   ├── AccessChanged          keys or tenants have changed since they were looked at
│   ├── InputGone              the job's input is not kept any more
│   ├── UploadGone             an uploaded file has expired, or is another job's
│   ├── UploadUnderWay         an upload under the same idempotency key goes on (`retry_after_s`)
│   ├── NoSignedUploads        the blob store has no addresses that a client could write to
│   ├── StaleLease             a worker writes to a job that is not its own any more
│   └── IllegalTransition      a bug: a move the transition table does not have
├── StoreError                 the store could not do it
│   ├── StoreUnavailable       it may work later: disk full, locked, unreachable
│   │   ├── BlobStoreUnavailable  the same of the place where large payloads and files are
│   │   └── KeyMissing         it is sealed with an encryption key that is not known here
│   ├── BlobGone               the bytes of a payload or a file are not there any more
│   ├── BlobDamaged            they are not what was written
│   ├── SchemaTooNew           a newer release has migrated this database
│   └── SchemaOutdated         this database needs `coatcheck migrate` first
├── EgressFailed               an address outside could not be called, or did not answer in time
├── ServerError                seen by the client: the server could not be talked to
│   ├── Unreachable            nobody answers at its address
│   ├── Overloaded             it takes no more from this client for now
│   └── UnexpectedAnswer       what answers there failed, or is not a Coatcheck server
└── JobError                   how a job ended, seen by the client that waited for it
    ├── JobFailed              it failed (`error_code`, `message`, `detail`)
    ├── JobCancelled           somebody cancelled it
    ├── TimedOut               the wait ran out; the job goes on
    └── UnexpectedResult       it succeeded, with a result that is not of the type asked for

StepFailed                     raised *in* a handler: a step it took has failed for good
StepsChanged                   a handler whose code does not fit what its job has on record

HandlerSignal                  raised *by* a handler to steer its own job
├── Retry                      try again later
└── Fail                       give up at once
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class CoatcheckError(Exception):
    """The root of what Coatcheck raises; `code` is stable, the message is for people."""

    code: ClassVar[str] = "error"


class InvalidInput(CoatcheckError):
    """What was asked for makes no sense; nothing was changed."""

    code = "invalid-input"


class UnknownKind(InvalidInput):
    """No such kind of job is declared."""

    code = "unknown-kind"
    problems = (("/kind", "no such kind is declared here"),)


class InvalidPayload(InvalidInput):
    """The input does not fit its type; `problems` are (JSON pointer, detail) pairs."""

    code = "invalid-payload"

    def __init__(self, message: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class EgressDenied(InvalidPayload):
    """The address is none that may be called from here."""

    code = "egress-denied"


class TooLarge(InvalidInput):
    """There are more bytes than are taken."""

    code = "too-large"


class ConfigurationError(InvalidInput):
    """A setting, an app reference or a declaration is wrong."""

    code = "configuration"


class Unauthorized(CoatcheckError):
    """There is no credential, it is a bad one, or it may not do this."""

    code = "unauthorized"


class Forbidden(Unauthorized):
    """The credential is good, and not for this."""

    code = "forbidden"


class PaymentRequired(Unauthorized):
    """The tenant whose key this is has not paid."""

    code = "payment-required"


class TenantSuspended(Unauthorized):
    """The tenant whose key this is has been suspended."""

    code = "suspended"


class QuotaExceeded(CoatcheckError):
    """The tenant has, or has handed in, as much as it may; it may be less later."""

    code = "quota-exceeded"

    def __init__(
        self, message: str, quota: str, limit: int, retry_after_s: int, window_s: int | None
    ) -> None:
        super().__init__(message)
        self.quota = quota
        self.limit = limit
        self.retry_after_s = retry_after_s
        self.window_s = window_s  # None: it is no rate


class TooManyOpen(QuotaExceeded):
    """The tenant has as many requests or uploads open at a time as it may."""

    code = "too-many-open"


class NotFound(CoatcheckError):
    """No such job."""

    code = "not-found"


class Gone(NotFound):
    """The job existed, and its retention has passed."""

    code = "gone"


class KeyReused(CoatcheckError):
    """The idempotency key was used before, for another request."""

    code = "idempotency-key-reused"


class Conflict(CoatcheckError):
    """The job is not in a state that allows this."""

    code = "conflict"


class IdTaken(Conflict):
    """Another job has the public id already."""

    code = "id-taken"


class InputGone(Conflict):
    """The job's input is not kept any more."""

    code = "input-gone"


class UploadUnderWay(Conflict):
    """Another upload under the same idempotency key goes on."""

    code = "upload-under-way"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class NoSignedUploads(Conflict):
    """The blob store has no addresses that a client could write a file to."""

    code = "no-signed-uploads"


class UploadGone(Conflict):
    """An uploaded file has expired, or belongs to another job."""

    code = "upload-gone"


class AccessChanged(Conflict):
    """Keys or tenants have changed since the caller was let in; it is to be let in again."""

    code = "access-changed"


class StaleLease(Conflict):
    """The job was taken from this worker, or it has ended."""

    code = "stale-lease"


class IllegalTransition(Conflict):
    """A move that the transition table does not have."""

    code = "illegal-transition"


class StoreError(CoatcheckError):
    """The store could not do what was asked."""

    code = "store"


class StoreUnavailable(StoreError):
    """The store cannot answer now and may later: a full disk, a lock, an outage."""

    code = "store-unavailable"


class BlobStoreUnavailable(StoreUnavailable):
    """The place where large payloads and files are cannot be used now, and may be later."""

    code = "blob-store-unavailable"


class KeyMissing(StoreUnavailable):
    """What is asked for was sealed with an encryption key that is not known here."""

    code = "encryption-key-missing"


class BlobGone(StoreError):
    """The bytes of a payload or a file are not there any more."""

    code = "blob-gone"


class BlobDamaged(StoreError):
    """The bytes of a payload or a file are not those that were written."""

    code = "blob-damaged"


class SchemaTooNew(StoreError):
    """A newer release has migrated this database; this one must not touch it."""

    code = "schema-too-new"


class SchemaOutdated(StoreError):
    """The database has not been migrated to what this release needs."""

    code = "schema-outdated"


class EgressFailed(CoatcheckError):
    """An address outside could not be called, or did not answer as it should in time."""

    code = "egress-failed"


class ServerError(CoatcheckError):
    """The client could not talk to the server as it should."""

    code = "server"


class Unreachable(ServerError):
    """Nobody answers at the server's address.

    A submit may have arrived all the same: repeated under `idempotency_key`, it is the same job.
    """

    code = "unreachable"

    def __init__(self, message: str, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        self.idempotency_key = idempotency_key


class Overloaded(ServerError):
    """The server takes no more from this client for now."""

    code = "overloaded"


class UnexpectedAnswer(ServerError):
    """What answers at the address failed, or is not a Coatcheck server."""

    code = "unexpected-answer"


class JobError(CoatcheckError):
    """How a job ended for the client that waited for it."""

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
    """The wait for the job ran out; the job itself goes on."""

    code = "timed-out"


class UnexpectedResult(JobError):
    """The job succeeded, with a result that is not of the type asked for.

    `problems` are (JSON pointer, detail) pairs; `result` is what it is.
    """

    code = "unexpected-result"

    def __init__(
        self, job_id: str, message: str, problems: Sequence[tuple[str, str]], result: object
    ) -> None:
        super().__init__(job_id, message)
        self.problems = tuple(problems)
        self.result = result


class StepFailed(CoatcheckError):
    """A step of the handler has failed for good; the first time its cause is the exception itself.

    It is the same when the handler comes back to the step later, so catch this and not the cause.
    """

    code = "step-failed"

    def __init__(self, step: str, error_code: str, message: str) -> None:
        super().__init__(f"step {step!r} failed: {message}")
        self.step = step
        self.error_code = error_code
        self.message = message


class StepsChanged(CoatcheckError):
    """The job has steps on record that its handler's code does not take any more."""

    code = "steps-changed"


class HandlerSignal(Exception):
    """Raised by a handler to say what should become of its own job."""


class Retry(HandlerSignal):
    """Try again later: `after` seconds from now, else by the kind's own backoff.

    With `counts=False` the attempt is given back: for what the job needs and could not be reached,
    so that nothing was done and nothing is to be held against it.
    """

    def __init__(
        self,
        message: str = "the handler asked to retry",
        after: float | None = None,
        *,
        counts: bool = True,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.after = after
        self.counts = counts


class Fail(HandlerSignal):
    """Give up at once, whatever attempts are left."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
