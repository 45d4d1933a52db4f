"""Webhooks: endpoints, deliveries, and their messages.

An *endpoint* is an address with a filter. It belongs to a tenant and gets the events of all its
jobs, or it belongs to one job. A *delivery* is one message to one endpoint: a job has entered a
state or a phase that the endpoint subscribes to. It is attempted by a schedule until it succeeds,
fails for good, or is called off.

Messages follow Standard Webhooks. `webhook-id` consists of the job and the number of the event in
its log, so it is the same for every attempt at a message, by any process.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from coatcheck.clock import to_rfc3339
from coatcheck.ids import is_ulid
from coatcheck.model.state import TERMINAL, State

PREFIX = "job."
PHASE = "phase"  # a running job has entered a phase: `ctx.phase`
# The event types. A job's first `queued` is not sent: its submitter knows. A requeue is.
TYPES = tuple(f"{PREFIX}{what}" for what in (*State, PHASE))
# The default filter.
ENDS = tuple(sorted(f"{PREFIX}{state}" for state in TERMINAL))

# The seconds before each attempt, counted from the previous one.
SCHEDULE_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000)
# Waits are longer by up to this share, so that attempts that failed together spread out.
JITTER = 0.2
# How many attempts a delivery records.
LOG_LENGTH = 20
# An endpoint that has failed for so long is disabled with the next failure.
GIVE_UP_AFTER_MS = 3 * 86_400_000
# How long the previous secret is used next to a new one.
ROTATION_MS = 86_400_000
OWN = ""  # the endpoint id of a job's own endpoint, and the job id of a tenant's endpoint

SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix
SECRET_BYTES = 32
_SECRET_SIZES = range(24, 65)


class Callback(NamedTuple):
    """The own endpoint of a job that is submitted."""

    url: str
    lane: str
    events: str


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """A receiver of webhooks. Deliveries of one `lane` share its concurrency limit.

    See engine/webhooks/concurrency.py.
    """

    tenant: str
    id: str
    url: str
    lane: str
    events: str  # its filter: states, separated by spaces
    created_at: int
    job_id: str = OWN
    description: str = ""
    failing_since: int | None = None
    disabled_at: int | None = None
    disabled_why: str | None = None


class WebhookSecret(NamedTuple):
    """A key that messages are signed with, until it expires (None: it does not)."""

    value: str
    created_at: int
    expires_at: int | None = None


class DeliveryState(StrEnum):
    """The state of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class DeliveryKey(NamedTuple):
    """The identity of a delivery."""

    tenant: str
    job_id: str
    seq: int  # of the event in the job's log
    endpoint: str  # OWN: the job's own


class DeliveryAttempt(NamedTuple):
    """One attempt at a delivery: the HTTP status, or the error."""

    at: int
    status: int | None
    error: str | None
    took_ms: int


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """One message to one endpoint."""

    key: DeliveryKey
    type: str
    at: int  # when it happened
    event: str  # the data of the job's event, JSON
    state: DeliveryState
    attempts: int  # in total; a result is written only under the number of its attempt
    tries: int  # since the delivery was last requested: the position in the schedule
    due_at: int | None
    log: tuple[DeliveryAttempt, ...] = ()


def states_of(types: Iterable[str]) -> str:
    """Return the filter for event types, as it is stored."""
    return " ".join(dict.fromkeys(name.removeprefix(PREFIX) for name in sorted(types)))


def types_of(events: str) -> list[str]:
    """Return the event types of a filter."""
    return [f"{PREFIX}{state}" for state in events.split()]


def message_id(key: DeliveryKey) -> str:
    """Return the `webhook-id` of a message."""
    return f"msg_{key.job_id}_{key.seq}"


def delivery_id(key: DeliveryKey) -> str:
    """Return the id of a delivery in the API."""
    place = f"{key.job_id}.{key.seq}"
    return place if key.endpoint == OWN else f"{place}.{key.endpoint}"


def read_delivery_id(tenant: str, written: str) -> DeliveryKey | None:
    """Parse the id of a delivery; None if it is invalid."""
    job_id, _, rest = written.partition(".")
    seq, dot, endpoint = rest.partition(".")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 16) or bool(dot) != bool(endpoint):
        return None
    if not is_ulid(job_id) or not (endpoint == OWN or is_ulid(endpoint)):
        return None
    return DeliveryKey(tenant, job_id, int(seq), endpoint)


def body_of(delivery: WebhookDelivery, kind: str) -> bytes:
    """Return the body of a message: the job's id and its event, not its input or result."""
    job_id = delivery.key.job_id
    event = json.loads(delivery.event)
    message = {
        "type": delivery.type,
        "timestamp": to_rfc3339(delivery.at),
        "data": {"id": job_id, "kind": kind, **event, "links": {"self": f"/v1/jobs/{job_id}"}},
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def next_try(
    tries: int, now: int, spread: float, schedule_s: Sequence[float] = SCHEDULE_S
) -> int | None:
    """Return the time of the next attempt after `tries` attempts; None if there is none.

    `spread` is a random number from 0 to 1.
    """
    if tries >= len(schedule_s):
        return None
    return now + round(schedule_s[tries] * 1000 * (1 + JITTER * spread))


def new_secret() -> str:
    """Generate a secret."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Return the bytes of a secret; raises ValueError if it is malformed."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(SECRET_PREFIX) or len(key) not in _SECRET_SIZES:
        raise ValueError("a secret is whsec_ and 24 to 64 bytes in base64")
    return key


def signature(keys: Sequence[str], message: str, timestamp: int, body: bytes) -> str:
    """Sign a message with each of the secrets (Standard Webhooks, v1)."""
    signed = f"{message}.{timestamp}.".encode() + body
    digests = (hmac.new(key_of(key), signed, hashlib.sha256).digest() for key in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
