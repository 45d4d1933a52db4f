"""What an operator can set of code graphs: by the names their document gives, and by ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from coatcheck.codegraph import LARGEST
from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError
from coatcheck.model.size import size_in_bytes
from coatcheck.surfaces.environment import whole_number

NAMING_URL = "COATCHECK_GRAPHS_NAMING_URL"
NAMING_MODEL = "COATCHECK_GRAPHS_NAMING_MODEL"
NAMING_KEY = "COATCHECK_GRAPHS_NAMING_KEY"
MEMORY = "COATCHECK_GRAPHS_MEMORY"
DISK = "COATCHECK_GRAPHS_DISK"


@dataclass(frozen=True)
class GraphSettings:
    """The comments are the reference; each field's name in the environment stands beside it.

    `SUPERMODEL_JOB_POLL_INTERVAL_MS` and `SUPERMODEL_JOB_MAX_POLL_INTERVAL_MS` are settings of the
    worker, and so is `SUPERMODEL_JOB_CONCURRENCY` where it is set (coatcheck/settings.py).
    """

    # SUPERMODEL_JOB_CONCURRENCY: how many graphs a worker has room for at once.
    concurrency: int = 4
    # SUPERMODEL_JOB_TTL_BLOB_HOURS: an archive is gone after this long, whatever became of its job.
    archive_hours: int = 1
    # SUPERMODEL_JOB_TTL_COMPLETED_HOURS: how long a graph can be fetched.
    completed_hours: int = 24
    # SUPERMODEL_JOB_TTL_FAILED_DAYS: how long it can be asked why there is none.
    failed_days: int = 7
    # COATCHECK_GRAPHS_MEMORY: what a job may use, for each of its processes.
    memory: int = 4_000_000_000
    # COATCHECK_GRAPHS_DISK: what a job may take up in the folder of temporary files beside its
    # archive.
    disk: int = LARGEST
    naming: NamingSettings | None = None

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> GraphSettings:
        """Read them; raises ConfigurationError with the name of what is wrong."""
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
            disk=_size(environment, DISK, cls.disk),
            naming=NamingSettings.read(environment),
        )


def _size(environment: Mapping[str, str], name: str, otherwise: int) -> int:
    written = environment.get(name, "").strip()
    return size_in_bytes(written, name) if written else otherwise


@dataclass(frozen=True)
class NamingSettings:
    """Who gives domains their names, if not their paths: an endpoint that speaks as OpenAI's."""

    # COATCHECK_GRAPHS_NAMING_URL: what /chat/completions follows on; empty: nobody is asked.
    url: str
    # COATCHECK_GRAPHS_NAMING_MODEL: which model is asked.
    model: str
    # COATCHECK_GRAPHS_NAMING_KEY: the key for it, or a reference to it: file:/run/secrets/key.
    key: str = field(default="", repr=False)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> NamingSettings | None:
        """Read them; None where nobody is to be asked."""
        url = environment.get(NAMING_URL, "").strip().rstrip("/")
        if not url:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(f"{NAMING_URL} is an http or https address, not {url!r}")
        model = environment.get(NAMING_MODEL, "").strip()
        if not model:
            raise ConfigurationError(f"{NAMING_URL} needs {NAMING_MODEL}: which model is asked")
        return cls(url, model, environment.get(NAMING_KEY, "").strip())

    @property
    def secret(self) -> str:
        """The key itself."""
        return resolve(self.key)
