"""What an operator can set of document ingest, and how it gets to where documents are read.

A document is read in a process of its own, which has nothing of its worker's but the environment.
What was said by flags or in the config file is put there (`hand_down`), so that the process finds
the same index, and holds the same rules about whom it may call.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from coatcheck.model.size import size_in_bytes
from coatcheck.settings import PREFIX, Settings
from coatcheck.surfaces.environment import whole_number

MEMORY = "COATCHECK_INGEST_MEMORY"
FETCH_BYTES = "COATCHECK_INGEST_FETCH_BYTES"
FETCH_SECONDS = "COATCHECK_INGEST_FETCH_SECONDS"
STEP_SECONDS = "COATCHECK_INGEST_STEP_SECONDS"

HANDED_DOWN = ("database", "schema", "connections", "profile", "egress_allow")


@dataclass(frozen=True)
class IngestSettings:
    """The comments are the reference; each field's name in the environment stands beside it. Who
    embeds is in `embedding/settings.py`.
    """

    # COATCHECK_INGEST_MEMORY: what reading a document may use.
    memory: int = 4_000_000_000
    # COATCHECK_INGEST_FETCH_BYTES: how large a document at an address may be.
    fetch_bytes: int = 50_000_000
    # COATCHECK_INGEST_FETCH_SECONDS: how long fetching it may take, redirects included.
    fetch_seconds: int = 60
    # COATCHECK_INGEST_STEP_SECONDS: how long reading a document may take, and how long cutting it.
    step_seconds: int = 300

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> IngestSettings:
        """Read them; raises ConfigurationError with the name of what is wrong."""
        memory = environment.get(MEMORY, "").strip()
        fetched = environment.get(FETCH_BYTES, "").strip()
        return cls(
            memory=size_in_bytes(memory, MEMORY) if memory else cls.memory,
            fetch_bytes=size_in_bytes(fetched, FETCH_BYTES) if fetched else cls.fetch_bytes,
            fetch_seconds=whole_number(environment, FETCH_SECONDS, cls.fetch_seconds, 1),
            step_seconds=whole_number(environment, STEP_SECONDS, cls.step_seconds, 1),
        )


def hand_down(settings: Settings, environment: MutableMapping[str, str]) -> None:
    """Put what reading a document needs to know into the environment of its process to be."""
    for name in HANDED_DOWN:
        environment[PREFIX + name.upper()] = str(getattr(settings, name))
