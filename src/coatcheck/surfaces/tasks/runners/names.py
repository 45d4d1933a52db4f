"""The name that an execution has in a cluster."""

from __future__ import annotations

import hashlib
import json
import re


def job_name(tenant: str, job_id: str) -> str:
    """Return the name of an execution's Job: always the same one, so that a Job is found again.

    It is made from whose job it is and from that job's own id, which nobody who submits can choose:
    a Job of somebody else's is never met under it. It is a DNS label of at most 63 characters,
    whatever these are, and two that look alike have two names.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", job_id.lower()).strip("-")[:40].strip("-")
    fingerprint = hashlib.sha256(json.dumps([tenant, job_id]).encode()).hexdigest()[:16]
    return "-".join(filter(None, ("exec", readable, fingerprint)))
