"""The operator's settings for document ingest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coatcheck.model.size import size_in_bytes
from coatcheck.surfaces.environment import whole_number

MEMORY = "COATCHECK_INGEST_MEMORY"
FETCH_BYTES = "COATCHECK_INGEST_FETCH_BYTES"
FETCH_SECONDS = "COATCHECK_INGEST_FETCH_SECONDS"
STEP_SECONDS = "COATCHECK_INGEST_STEP_SECONDS"


@dataclass(frozen=True)
class IngestSettings:
    """Limits of the pipeline; each field is named after its environment variable.

    The settings of the embedder are in `embedding/settings.py`.
    """

    # COATCHECK_INGEST_MEMORY: memory limit of the process that reads a document.
    memory: int = 4_000_000_000
    # COATCHECK_INGEST_FETCH_BYTES: size limit of a fetched document.
    fetch_bytes: int = 50_000_000
    # COATCHECK_INGEST_FETCH_SECONDS: time limit of a fetch, including redirects.
    fetch_seconds: int = 60
    # COATCHECK_INGEST_STEP_SECONDS: time limit for extracting a document, and for chunking it.
    step_seconds: int = 300

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> IngestSettings:
        """Read the settings; raise ConfigurationError naming the invalid one."""
        memory = environment.get(MEMORY, "").strip()
        fetched = environment.get(FETCH_BYTES, "").strip()
        return cls(
            memory=size_in_bytes(memory, MEMORY) if memory else cls.memory,
            fetch_bytes=size_in_bytes(fetched, FETCH_BYTES) if fetched else cls.fetch_bytes,
            fetch_seconds=whole_number(environment, FETCH_SECONDS, cls.fetch_seconds, 1),
            step_seconds=whole_number(environment, STEP_SECONDS, cls.step_seconds, 1),
        )
