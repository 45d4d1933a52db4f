"""Settings of the graphs surface: those of its document, and our own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError
from coatcheck.model.size import size_in_bytes
from coatcheck.surfaces.environment import whole_number

NAMING_URL = "COATCHECK_GRAPHS_NAMING_URL"
NAMING_MODEL = "COATCHECK_GRAPHS_NAMING_MODEL"
NAMING_KEY = "COATCHECK_GRAPHS_NAMING_KEY"
MEMORY = "COATCHECK_GRAPHS_MEMORY"
# Removed in 0.2: the analysis needs no temporary files.
_REMOVED = "COATCHECK_GRAPHS_DISK"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GraphSettings:
    """The settings; the comment above each field has its name in the environment.

    `SUPERMODEL_JOB_POLL_INTERVAL_MS` and `SUPERMODEL_JOB_MAX_POLL_INTERVAL_MS` are settings of the
    worker, and so is `SUPERMODEL_JOB_CONCURRENCY` if it is set (coatcheck/settings.py).
    """

    # SUPERMODEL_JOB_CONCURRENCY: how many graphs a worker makes at once.
    concurrency: int = 4
    # SUPERMODEL_JOB_TTL_BLOB_HOURS: when an archive is deleted, even if its job is not finished.
    archive_hours: int = 1
    # SUPERMODEL_JOB_TTL_COMPLETED_HOURS: how long a graph is kept.
    completed_hours: int = 24
    # SUPERMODEL_JOB_TTL_FAILED_DAYS: how long a failed job is kept.
    failed_days: int = 7
    # COATCHECK_GRAPHS_MEMORY: the memory limit of a job, for each of its processes. A graph
    # with calls takes about 23 MB for each MB of source (codegraph/README.md).
    memory: int = 4_000_000_000
    naming: NamingSettings | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> GraphSettings:
        """Read the settings; raise ConfigurationError if one is invalid."""
        if environment.get(_REMOVED):
            log.warning("setting ignored: it was removed", extra={"setting": _REMOVED})
        return cls(
            concurrency=whole_number(environment, "SUPERMODEL_JOB_CONCURRENCY", cls.concurrency, 1),
            archive_hours=whole_number(
                environment, "SUPERMODEL_JOB_TTL_BLOB_HOURS", cls.archive_hours, 1
            ),
            completed_hours=whole_number(
                environment, "SUPERMODEL_JOB_TTL_COMPLETED_HOURS", cls.completed_hours, 1
            ),
            failed_days=whole_number(
                environment, "SUPERMODEL_JOB_TTL_FAILED_DAYS", cls.failed_days, 1
            ),
            memory=_size(environment, MEMORY, cls.memory),
            naming=NamingSettings.read(environment),
        )


def _size(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    written = environment.get(name, "").strip()
    return size_in_bytes(written, name) if written else otherwise


@dataclass(frozen=True)
class NamingSettings:
    """The model that names domains: an endpoint with OpenAI's API."""

    # COATCHECK_GRAPHS_NAMING_URL: the base URL of /chat/completions; if empty, paths name domains.
    url: str
    # COATCHECK_GRAPHS_NAMING_MODEL: the name of the model.
    model: str
    # COATCHECK_GRAPHS_NAMING_KEY: the API key, or a reference: file:/run/secrets/key.
    key: str = field(default="", repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> NamingSettings | None:
        """Read the settings; return None if no model names domains."""
        url = environment.get(NAMING_URL, "").strip().rstrip("/")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{NAMING_URL} is an http or https address, not {url!r}")
        model = environment.get(NAMING_MODEL, "").strip()
        if not model:
            raise ConfigurationError(f"{NAMING_URL} needs {NAMING_MODEL}: the name of the model")
        return cls(url, model, environment.get(NAMING_KEY, "").strip())

    @property
    def secret(self) -> str:
        """The resolved API key."""
        return resolve(self.key)
