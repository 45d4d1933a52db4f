"""Claims and leases of workers that use the HTTP API."""

from __future__ import annotations

from typing import Any

from coatcheck.documents.fields import Count, Links, Name, Timestamp
from coatcheck.documents.schema import Document


class ClaimHead(Document):
    """The members of a claim before the job's input."""

    job_id: str
    fence: Count
    tenant: Name
    kind: str
    queue: str
    attempt: Count
    max_attempts: Count
    timeout_s: float
    deadline_at: Timestamp | None
    correlation_id: str | None
    traceparent: str | None
    links: Links


class ClaimDocument(ClaimHead):
    """A claimed job with its lease."""

    input: Any


class ClaimsDocument(Document):
    """The claimed jobs and the length of their leases."""

    lease_s: float
    claims: list[ClaimDocument]


class HeartbeatDocument(Document):
    """A renewed lease."""

    lease_s: float
    cancel_requested: bool
