"""Shortlinks, and what was drawn lately: two small collections of records.

A shortlink is a capability: whoever has it sees the picture, with or without a key, whoever's it
is. So it is drawn at random, and its record stands apart from any tenant's. It is chosen before its
job is written and written together with it; where a crash leaves it alone it leads nowhere. It goes
with its job, whatever becomes of that: each sweep looks at some links, in turn, and removes those
whose job is not there any more.

The cache says under the digest of a source which job has drawn it, for each tenant apart. It holds
no picture: what counts is that job, as long as it is kept.
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
DRAWN = "render.drawn"
LENGTH = 8
_ALPHABET = string.ascii_letters + string.digits
# A link is good as long as its job is kept; a job can wait this long to be drawn.
LONGEST_WAIT_MS = 30 * 86_400_000
# So many links are looked at with each sweep.
AT_ONCE = 50
# One whose job is not there may be about to be written.
NEW_MS = 60_000


class LinkedJob(NamedTuple):
    """The job that a record leads to."""

    tenant: str
    job_id: str


def new_shortlink() -> str:
    """Choose where a picture will be."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(LENGTH))


def is_shortlink(text: str) -> bool:
    """Tell whether this could be one."""
    return len(text) == LENGTH and text.isascii() and text.isalnum()


def digest_of(diagram: Diagram) -> str:
    """Return what two diagrams have in common exactly if they look the same."""
    said = json.dumps([diagram.format, diagram.output, diagram.source, diagram.engine])
    return hashlib.sha256(said.encode()).hexdigest()


def link_to(to: LinkedJob, shortlink: str, now: int, keep_ms: int) -> Record:
    """Return what says where a shortlink leads."""
    expires = now + LONGEST_WAIT_MS + keep_ms
    return Record(DEFAULT_TENANT, LINKS, shortlink, json.dumps(to), 0, now, expires)


async def find_link(store: Store, shortlink: str, now: int) -> LinkedJob | None:
    """Return where a shortlink leads; None where there is none."""
    if not is_shortlink(shortlink):
        return None
    found = await store.records.get_record(DEFAULT_TENANT, LINKS, shortlink, now)
    return None if found is None else LinkedJob(*json.loads(found.value))


def drawn_by(by: LinkedJob, digest: str, now: int, ttl_ms: int) -> Record:
    """Return what says which job draws a source."""
    return Record(by.tenant, DRAWN, digest, json.dumps(by.job_id), 0, now, now + ttl_ms)


async def find_drawn(store: Store, digest: str, tenant: str, now: int) -> LinkedJob | None:
    """Return the job that has drawn a source lately, or was about to."""
    found = await store.records.get_record(tenant, DRAWN, digest, now)
    return None if found is None else LinkedJob(tenant, json.loads(found.value))


class LinkSweep:
    """Removes links whose job is gone, a few at a time."""

    def __init__(self) -> None:
        self._after = ""

    async def sweep(self, engine: Engine) -> int:
        """Look at the next few links; return how many were removed."""
        store, now = engine.store, engine.clock.now()
        page = await store.records.list_records(DEFAULT_TENANT, LINKS, now, self._after, AT_ONCE)
        self._after = page[-1].key if len(page) == AT_ONCE else ""
        removed = 0
        for link in page:
            if now - link.updated_at >= NEW_MS and not await _is_kept(engine, link):
                removed += await store.records.delete_record(DEFAULT_TENANT, LINKS, link.key)
        return removed


async def _is_kept(engine: Engine, link: Record) -> bool:
    to = LinkedJob(*json.loads(link.value))
    try:
        await engine.get_without_result(to.job_id, to.tenant)
    except NotFound:
        return False
    return True
