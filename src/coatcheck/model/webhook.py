"""Webhooks: who is told of what becomes of jobs, and what is told.

An *endpoint* is an address with a filter: either a tenant's, which is told of all its jobs, or one
job's own. A *delivery* is one message to one endpoint: a job has come into a state, or into a phase
of its run, that the endpoint wants to hear of. It is tried by a schedule until it is taken, given
up, or called off.

Messages follow Standard Webhooks. `webhook-id` is made of the job and the number of the event in
its log: always the same for the same message, whoever sends it and however often.
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
PHASE = "phase"  # that a running job does something else now: `ctx.phase`
# What can be told, as people write it. A job that is submitted begins as queued, and that is not
# told: whoever submitted it knows. One that goes back to its queue is.
TYPES = tuple(f"{PREFIX}{what}" for what in (*State, PHASE))
# What is told where nobody says otherwise.
ENDS = tuple(sorted(f"{PREFIX}{state}" for state in TERMINAL))

# Seconds after the try before at which a delivery is tried (again).
SCHEDULE_S = (0, 5, 300, 1_800, 7_200, 18_000, 36_000)
# Waits are longer by up to this share, so that what failed together does not come back together.
JITTER = 0.2
# How many tries are remembered.
LOG_LENGTH = 20
# An endpoint that has taken nothing for so long is disabled with the next failure.
GIVE_UP_AFTER_MS = 3 * 86_400_000
# How long the secret before is used beside a new one.
ROTATION_MS = 86_400_000
OWN = ""  # the id of a job's own endpoint, and of whose job a tenant's endpoint is

SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with
SECRET_BYTES = 32
_SECRET_SIZES = range(24, 65)


class Callback(NamedTuple):
    """What a job that is submitted says of its own endpoint."""

    url: str
    lane: str
    events: str


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """An address that is told. `lane` is what shares its slowness: see
    engine/webhooks/dispatcher.py.
    """

    tenant: str
    id: str
    url: str
    lane: str
    events: str  # the states it wants to hear of, with spaces between
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
    """What became of a delivery."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class DeliveryKey(NamedTuple):
    """What names a delivery."""

    tenant: str
    job_id: str
    seq: int  # of the event in the job's log
    endpoint: str  # OWN: the job's own


class DeliveryAttempt(NamedTuple):
    """One attempt to deliver: the status that came back, or what went wrong."""

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
    event: str  # what the job's log says of it, JSON
    state: DeliveryState
    attempts: int  # ever; names who may write what became of the last one
    tries: int  # since it was last asked for: how far the schedule has come
    due_at: int | None
    log: tuple[DeliveryAttempt, ...] = ()


def states_of(types: Iterable[str]) -> str:
    """Return the filter for event types, in the form it is kept in."""
    return " ".join(dict.fromkeys(name.removeprefix(PREFIX) for name in sorted(types)))


def types_of(events: str) -> list[str]:
    """Return the event types of a filter."""
    return [f"{PREFIX}{state}" for state in events.split()]


def message_id(key: DeliveryKey) -> str:
    """Return what a receiver knows a message by, however often it comes."""
    return f"msg_{key.job_id}_{key.seq}"


def delivery_id(key: DeliveryKey) -> str:
    """Return what we call a delivery."""
    place = f"{key.job_id}.{key.seq}"
    return place if key.endpoint == OWN else f"{place}.{key.endpoint}"


def read_delivery_id(tenant: str, written: str) -> DeliveryKey | None:
    """Read it back; None where it cannot be one."""
    job_id, _, rest = written.partition(".")
    seq, dot, endpoint = rest.partition(".")
    if not (seq.isascii() and seq.isdigit() and len(seq) < 16) or bool(dot) != bool(endpoint):
        return None
    if not is_ulid(job_id) or not (endpoint == OWN or is_ulid(endpoint)):
        return None
    return DeliveryKey(tenant, job_id, int(seq), endpoint)


def body_of(delivery: WebhookDelivery, kind: str) -> bytes:
    """Return the message: what happened to which job. What the job holds is asked for by its id."""
    job_id = delivery.key.job_id
    told = json.loads(delivery.event)
    message = {
        "type": delivery.type,
        "timestamp": to_rfc3339(delivery.at),
        "data": {"id": job_id, "kind": kind, **told, "links": {"self": f"/v1/jobs/{job_id}"}},
    }
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()


def next_try(
    tries: int, now: int, spread: float, schedule_s: Sequence[float] = SCHEDULE_S
) -> int | None:
    """Return when a delivery that has been tried so often is tried again; None: it is given up.

    `spread` is a random number from 0 to 1.
    """
    if tries >= len(schedule_s):
        return None
    return now + round(schedule_s[tries] * 1000 * (1 + JITTER * spread))


def new_secret() -> str:
    """Make a secret nobody knows."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()


def key_of(secret: str) -> bytes:
    """Return the bytes of a secret; raises ValueError where it is none."""
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
