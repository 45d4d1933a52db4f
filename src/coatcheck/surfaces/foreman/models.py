"""Names of models: as Ollama compares them, and as the queues are called by them."""

from __future__ import annotations

import hashlib
import re

QUEUE_PREFIX = "foreman."
_TAG = ":latest"
_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_.:-]+")
_LONGEST = 80
_DIGEST = 8


def canonical(model: str) -> str:
    """Return the one name of a model: without a tag it is the latest, and case does not matter."""
    name = model.strip().lower()
    last = name.rpartition("/")[2]
    return name if ":" in last else name + _TAG


def queue_of(model: str) -> str:
    """Return the queue for the jobs of a model. No two models share one."""
    name = canonical(model)
    plain = _NOT_IN_A_NAME.sub("-", name)
    if plain == name and len(plain) <= _LONGEST:
        return QUEUE_PREFIX + plain
    digest = hashlib.sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{QUEUE_PREFIX}{plain[:_LONGEST]}-{digest}"
