"""The operator's settings for diagrams, under the names of the original API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError
from coatcheck.model.size import size_in_bytes
from coatcheck.surfaces.environment import whole_number
from coatcheck.surfaces.render.drawing import Format, engine_names, engines_in_force

ENGINE = "RENDER_ENGINE"
SECONDS = "COATCHECK_RENDER_SECONDS"
MEMORY = "COATCHECK_RENDER_MEMORY"


@dataclass(frozen=True)
class RenderSettings:
    """Limits and choices for diagrams; each field is named after its environment variable."""

    # JOB_RETENTION_MS: how long a finished job is kept.
    retention_ms: int = 3_600_000
    # CACHE_TTL: for how many milliseconds an identical source is not drawn again.
    cache_ttl_ms: int = 300_000
    # QUEUE_MAX_CONCURRENT: how many diagrams are drawn at once, on all workers together. If it is
    # more than one, each server with a worker of its own may also draw one within a synchronous
    # request.
    max_concurrent: int = 10
    # QUEUE_MAX_WAITING: with this many queued, synchronous requests are rejected.
    max_waiting: int = 50
    # BASE_URL: prefix of URLs in responses; empty: paths only.
    base_url: str = ""
    # COATCHECK_RENDER_SECONDS: time limit of a diagram, without the grace period.
    seconds: int = 30
    # COATCHECK_RENDER_MEMORY: memory limit of a diagram.
    memory: int = 512_000_000
    # RENDER_ENGINE: the engine for Mermaid; empty: the first one, which needs no browser.
    engine: str = ""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> RenderSettings:
        """Read the settings; raise ConfigurationError naming the invalid one."""
        base_url = environment.get("BASE_URL", "").strip().rstrip("/")
        if base_url and urlsplit(base_url).scheme not in ("http", "https"):
            raise ConfigurationError(f"BASE_URL must be an http or https URL, not {base_url!r}")
        memory = environment.get(MEMORY, "").strip()
        return cls(
            retention_ms=whole_number(environment, "JOB_RETENTION_MS", cls.retention_ms, 1),
            cache_ttl_ms=whole_number(environment, "CACHE_TTL", cls.cache_ttl_ms),
            max_concurrent=whole_number(environment, "QUEUE_MAX_CONCURRENT", cls.max_concurrent, 1),
            max_waiting=whole_number(environment, "QUEUE_MAX_WAITING", cls.max_waiting),
            base_url=base_url,
            seconds=whole_number(environment, SECONDS, cls.seconds, 1),
            memory=size_in_bytes(memory, MEMORY) if memory else cls.memory,
            engine=_engine(environment.get(ENGINE, "").strip()),
        )


def _engine(name: str) -> str:
    known = engine_names(Format.MERMAID)
    if name and name not in known:
        raise ConfigurationError(f"{ENGINE} must be one of {', '.join(known)}, not {name!r}")
    # Report a missing engine at the start, not with every diagram.
    for found in engines_in_force() if name else ():
        if found.engine == name and not found.ready:
            raise ConfigurationError(
                f"{ENGINE} is {name}, which cannot draw on this machine: it needs {found.missing}"
            )
    return name
