"""Shortlinks and the cache: two small collections of records.

A shortlink is a capability: anybody who has it can see the picture, with or without a key.
Therefore it is random, and its record belongs to no tenant. It is chosen before its job is written,
and written together with it; if a crash leaves it alone, it leads nowhere. It is deleted after its
job: each sweep checks some links, in turn, and deletes those whose job is gone.

The cache maps the digest of a source to the job that drew it, separately for each tenant. It holds
no picture, so an entry is valid only while its job is kept.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import string
from typing import NamedTuple

from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.record import Record
from coatcheck.store.base import Store
from coatcheck.surfaces.render.diagram import Diagram

LINKS = "render.links"
CACHE = "render.drawn"
LENGTH = 8
_ALPHABET = string.ascii_letters + string.digits
# A link is valid while its job is kept; a job may wait this long to be drawn.
MAX_WAIT_MS = 30 * 86_400_000
# Links checked in each sweep.
SWEEP_BATCH = 50
# The job of a newer link may not be written yet.
MIN_AGE_MS = 60_000


class LinkedJob(NamedTuple):
    """The job that a record refers to."""

    tenant: str
    job_id: str


def new_shortlink() -> str:
    """Generate a random shortlink."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))


def is_shortlink(text: str) -> bool:
    """Report whether a text has the form of a shortlink."""
    return len(text) == LENGTH and text.isascii() and text.isalnum()


def digest_of(diagram: Diagram) -> str:
    """Return a digest that is equal for diagrams that look the same."""
    identity = json.dumps([diagram.format, diagram.output, diagram.source, diagram.engine])
    return hashlib.sha256(identity.encode()).hexdigest()


def link_record(to: LinkedJob, shortlink: str, now: int, keep_ms: int) -> Record:
    """Return the record that maps a shortlink to its job."""
    expires = now + MAX_WAIT_MS + keep_ms
    return Record(DEFAULT_TENANT, LINKS, shortlink, json.dumps(to), 0, now, expires)


async def find_link(store: Store, shortlink: str, now: int) -> LinkedJob | None:
    """Return the job of a shortlink, or None."""
    if not is_shortlink(shortlink):
        return None
    found = await store.records.get_record(DEFAULT_TENANT, LINKS, shortlink, now)
    return None if found is None else LinkedJob(*json.loads(found.value))


def cache_record(by: LinkedJob, digest: str, now: int, ttl_ms: int) -> Record:
    """Return the record that maps a source to the job that draws it."""
    return Record(by.tenant, CACHE, digest, json.dumps(by.job_id), 0, now, now + ttl_ms)


async def find_cache_entry(store: Store, digest: str, tenant: str, now: int) -> LinkedJob | None:
    """Return the job that drew a source recently, or is about to draw it."""
    found = await store.records.get_record(tenant, CACHE, digest, now)
    return None if found is None else LinkedJob(tenant, json.loads(found.value))


class LinkSweep:
    """Deletes links whose job is gone, a few at a time."""

    def __init__(self) -> None:
        self._after = ""

    async def sweep(self, engine: Engine) -> int:
        """Check the next few links; return how many were deleted."""
        store, now = engine.store, engine.clock.now()
        page = await store.records.list_records(
            DEFAULT_TENANT, LINKS, now, self._after, SWEEP_BATCH
        )
        self._after = page[-1].key if len(page) == SWEEP_BATCH else ""
        removed = 0
        for link in page:
            if now - link.updated_at >= MIN_AGE_MS and not await _job_exists(engine, link):
                removed += await store.records.delete_record(DEFAULT_TENANT, LINKS, link.key)
        return removed


async def _job_exists(engine: Engine, link: Record) -> bool:
    to = LinkedJob(*json.loads(link.value))
    try:
        await engine.get_without_result(to.job_id, to.tenant)
    except NotFound:
        return False
    return True
