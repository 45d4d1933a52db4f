"""The settings, read once at start: flags, then environment, then the TOML file, then defaults.

Each setting has one name: the field `lease_s` is `COATCHECK_LEASE_S` in the environment and
`lease_s` in the TOML file. A few foreign names that existing deployments use apply if our own is
unset (`_read_foreign`).

The file may also hold tables that belong to a surface (`TABLES`). The surface reads them with
`read_tables`.
"""

from __future__ import annotations

import dataclasses
import math
import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from coatcheck.errors import ConfigurationError

PREFIX = "COATCHECK_"
# Foreign names that existing deployments use.
DATABASE_FILE = "JOB_DB_PATH"
POLL_MS = ("JOB_POLL_INTERVAL_MS", "SUPERMODEL_JOB_POLL_INTERVAL_MS")
LONGEST_POLL_MS = "SUPERMODEL_JOB_MAX_POLL_INTERVAL_MS"
PROCESSES = "SUPERMODEL_JOB_CONCURRENCY"


# Tables that the file may hold beside settings: [[proxy]], an array of tables, and [foreman].
TABLES = frozenset({"foreman", "proxy"})

POSITIVE = (
    *("lease_s", "sweep_s", "poll_s", "longest_poll_s", "audit_days"),
    *("tenant_uploads", "tenant_queues", "tenant_records"),
)
COUNTS = ("concurrency", "processes", "process_jobs", "body_min_rate", "tenant_requests")
NOT_NEGATIVE = ("drain_s", "grace_s", "hang_s", "mcp_wait_s", "body_grace_s", *COUNTS)
LARGEST_UID = 2**32 - 2  # the next one means "no user"
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """The operator's settings. The comments are the reference."""

    # The TOML file with settings, and the rules of the proxy.
    config: str = ""
    # The database: sqlite:///relative/path, sqlite:////absolute/path, postgresql://..., or a
    # reference to a secret with such a URL: file:/run/secrets/dsn, akv:<vault>/<secret>.
    database: str = dataclasses.field(default="sqlite:///data/coatcheck.db", repr=False)
    # The blob store, for large payloads, uploads and artifacts: file:///absolute/path,
    # s3://bucket/folder, az://container, gs://bucket. Empty: the folder `blobs` beside the database
    # file.
    blobs: str = ""
    # PostgreSQL only: the schema, a direct address for LISTEN if `database` goes through a pooler,
    # and the maximum number of connections of each process.
    schema: str = "coatcheck"
    listen: str = dataclasses.field(default="", repr=False)
    connections: int = 10
    # Keys that encrypt payloads and reports at rest, as <id>=<32 bytes in base64>. The first one
    # encrypts; all decrypt. Or a reference: file:/run/secrets/keys. Empty: no encryption.
    encryption_keys: str = dataclasses.field(default="", repr=False)
    # "production" accepts secrets by reference only.
    profile: str = ""
    # The secret in the hash of API keys, 16 characters or more: the secret itself, or better a
    # reference such as file:/run/secrets/pepper. Empty: with SQLite, a file beside the database
    # that is created with the first key or webhook.
    pepper: str = dataclasses.field(default="", repr=False)
    # Origins of web pages that may call the API, separated by commas.
    cors_origins: str = ""
    # The address and port that the API listens on.
    host: str = "127.0.0.1"
    port: int = 8080
    # How many jobs a worker runs at once on its event loop and in threads. 0: 8 per core.
    concurrency: int = 0
    # How many jobs a worker runs at once in processes. 0: one per core, or as many as a kind
    # declares.
    processes: int = 0
    # How many jobs a process runs before it is replaced, which bounds leaks of handlers. 0: no
    # limit.
    process_jobs: int = 1000
    # A worker without a heartbeat for this long is declared lost.
    lease_s: float = 30.0
    # How often the sweep looks for lost workers, expired jobs and old results.
    sweep_s: float = 5.0
    # How long running jobs may finish after SIGTERM before they are released.
    drain_s: float = 30.0
    # An API process that has not answered its supervisor for this long is killed and restarted. 0:
    # never.
    hang_s: float = 30.0
    # How long an interrupted handler may clean up before it is killed or abandoned.
    grace_s: float = 10.0
    # How often a worker polls for work, as a safety net below the wake-ups.
    poll_s: float = 1.0
    # While the store fails, the poll interval doubles up to this. It halves after three successes.
    longest_poll_s: float = 30.0
    # The uids of sandboxed programs if the server runs as root, as FIRST-LAST. They must not be in
    # use. Empty: a range that systemd leaves free.
    sandbox_uids: str = ""
    # Addresses that webhooks may call beside the public internet: names, *.names, addresses and
    # networks, separated by commas.
    egress_allow: str = ""
    # The secret that signs deliveries to the webhooks of jobs: whsec_..., or a reference to it.
    # Empty: a secret that is generated when it is needed.
    webhook_secret: str = dataclasses.field(default="", repr=False)
    # How long an MCP tool call waits for its job before it returns the job's id.
    mcp_wait_s: float = 5.0
    # How many days entries of the audit log are kept.
    audit_days: float = 400.0
    # The minimum rate of a request body, in bytes per second, and how long the server waits before
    # it applies. Time in which the server itself is busy does not count. A rate of 0: no minimum.
    body_min_rate: int = 1024
    body_grace_s: float = 30.0
    # How many uploads, and how many requests and streams of any kind, one tenant may have open in
    # each API process. 0 requests: half of the connections that the file descriptors allow, at most
    # 10,000.
    tenant_uploads: int = 32
    tenant_requests: int = 0
    # How many queues one tenant may use beside those that kinds declare, and how many documents it
    # may have in a collection, such as tasks.
    tenant_queues: int = 1000
    tenant_records: int = 10_000
    # Log lines as "json" or "text"; "auto" is text on a terminal.
    log_format: str = "auto"
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must be more than 0, not {getattr(self, name)}")
        for name in NOT_NEGATIVE:
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigurationError(f"{name} must not be negative: {getattr(self, name)}")
        if self.connections < 2:
            raise ConfigurationError(f"connections must be 2 or more, not {self.connections}")
        if self.profile not in ("", "production"):
            raise ConfigurationError(f"profile must be production or empty, not {self.profile!r}")
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"port must be between 0 and 65535, not {self.port}")
        read_uids(self.sandbox_uids)
        if self.log_level not in LOG_LEVELS:
            raise ConfigurationError(
                f"log_level must be one of {', '.join(LOG_LEVELS)}, not {self.log_level!r}"
            )
        if self.log_format not in ("auto", "json", "text"):
            raise ConfigurationError(
                f"log_format must be json, text or auto, not {self.log_format!r}"
            )

    @property
    def is_production(self) -> bool:
        """Whether the production profile applies: see SECURITY.md."""
        return self.profile == "production"

    @property
    def origins(self) -> list[str]:
        """The origins whose pages may call the API."""
        return [text.strip() for text in self.cors_origins.split(",") if text.strip()]

    @property
    def slots(self) -> int:
        """How many jobs a worker runs at once on its event loop and in threads."""
        return self.concurrency or 8 * (os.cpu_count() or 1)

    def process_slots(self, wanted: int = 0) -> int:
        """Return how many jobs a worker runs at once in processes, if its kinds declare
        `wanted`.
        """
        return self.processes or max(os.cpu_count() or 1, wanted)


def read_uids(text: str) -> tuple[int, int] | None:
    """Read a range of uids, FIRST-LAST; None if empty. Raise ConfigurationError if it is
    invalid.
    """
    if not text:
        return None
    first, dash, last = text.partition("-")
    if not (dash and all(each.isascii() and each.isdigit() for each in (first, last))):
        raise ConfigurationError(
            f"sandbox_uids must be FIRST-LAST, such as 70000-70999, not {text!r}"
        )
    if not 0 < int(first) <= int(last) <= LARGEST_UID:
        raise ConfigurationError(f"sandbox_uids must be an ascending range without 0, not {text}")
    return int(first), int(last)


def load_settings(
    flags: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Read the settings. `flags` holds the command-line options; None means not given.

    The TOML file is the flag `config`, otherwise `COATCHECK_CONFIG`; its keys are the field names.
    """
    environment = os.environ if environment is None else environment
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    config = given.get("config") or environment.get(PREFIX + "CONFIG")
    values = _from_file(Path(config)) if config else {}
    for name, kind in _types().items():
        if (text := environment.get(PREFIX + name.upper())) is not None:
            values[name] = _convert(PREFIX + name.upper(), text, kind)
    return Settings(**{**_read_foreign(environment), **values, **given})


@cache
def _types() -> Mapping[str, Any]:
    return MappingProxyType(get_type_hints(Settings))


def _read_foreign(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if DATABASE_FILE in environment:
        found["database"] = f"sqlite:///{environment[DATABASE_FILE]}"
    for name in POLL_MS:
        if (number := _count(environment, name, "milliseconds")) is not None:
            found["poll_s"] = number / 1000
    if (number := _count(environment, LONGEST_POLL_MS, "milliseconds")) is not None:
        found["longest_poll_s"] = number / 1000
    if (number := _count(environment, PROCESSES, "jobs")) is not None:
        found["processes"] = number
    return found


def read_tables(settings: Settings, name: str) -> list[dict[str, Any]]:
    """Return the tables of this name in the TOML file; none if there is no file."""
    assert name in TABLES, "the file would be rejected"
    if not settings.config:
        return []
    found = _content_of(Path(settings.config)).get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ConfigurationError(f"{settings.config}: write each {name} as a table: [[{name}]]")
    return found


def read_table(settings: Settings, name: str) -> dict[str, Any]:
    """Return a table of the TOML file; an empty one if it does not exist."""
    assert name in TABLES, "the file would be rejected"
    if not settings.config:
        return {}
    found = _content_of(Path(settings.config)).get(name, {})
    if not isinstance(found, dict):
        raise ConfigurationError(f"{settings.config}: write {name} as a table: [{name}]")
    return found


def _count(environment: Mapping[str, str], name: str, what: str) -> int | None:
    text = environment.get(name, "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ConfigurationError(f"{name} must be a number of {what}, not {text!r}")
    return int(text)


def _content_of(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"cannot read the config file {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _from_file(path: Path) -> dict[str, Any]:
    types = dict(_types())
    del types["config"]  # the file cannot name itself
    values = {}
    for name, value in _content_of(path).items():
        if name in TABLES:
            continue
        if name not in types:
            known = ", ".join(sorted((*types, *TABLES)))
            raise ConfigurationError(f"{path}: unknown setting {name!r}; known settings: {known}")
        values[name] = _convert(f"{path}: {name}", value, types[name])
    return values


def _convert(name: str, value: object, kind: type) -> object:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    try:
        if isinstance(value, str) or (is_number and kind is float) or type(value) is kind:
            return kind(value)
    except ValueError:
        pass
    raise ConfigurationError(f"{name} must be of type {kind.__name__}, not {value!r}")
