"""The name that an execution has in a cluster."""

from __future__ import annotations

import hashlib
import re


def job_name(execution_id: str) -> str:
    """Return the name of an execution's Job: always the same one, so that a Job is found again.

    It is a DNS label of at most 63 characters, whatever the id is, and two ids that look alike
    have two names.
    """
    readable = re.sub(r"[^a-z0-9]+", "-", execution_id.lower()).strip("-")[:40].strip("-")
    fingerprint = hashlib.sha256(execution_id.encode()).hexdigest()[:12]
    return "-".join(filter(None, ("exec", readable, fingerprint)))
