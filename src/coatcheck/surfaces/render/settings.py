"""What an operator can set of diagrams, by the names their document gives."""

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
    """The comments are the reference; each field's name in the environment stands beside it."""

    # JOB_RETENTION_MS: how long a job is kept once it has ended.
    retention_ms: int = 3_600_000
    # CACHE_TTL: for how many milliseconds the same source is not drawn again.
    cache_ttl_ms: int = 300_000
    # QUEUE_MAX_CONCURRENT: how many are drawn at once, on all workers together; beside them, where
    # it is more than one, one for who waits on the line, at each server with a worker of its own.
    most_at_once: int = 10
    # QUEUE_MAX_WAITING: with so many waiting, nobody is let wait for theirs on the line.
    most_waiting: int = 50
    # BASE_URL: what addresses begin with; empty: a path alone.
    base_url: str = ""
    # COATCHECK_RENDER_SECONDS: how long a diagram may take; there is a grace beside it.
    seconds: int = 30
    # COATCHECK_RENDER_MEMORY: what it may use.
    memory: int = 512_000_000
    # RENDER_ENGINE: what draws Mermaid, by its name; empty: the first, which needs no browser.
    engine: str = ""

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> RenderSettings:
        """Read them; raises ConfigurationError with the name of what is wrong."""
        base_url = environment.get("BASE_URL", "").strip().rstrip("/")
        if base_url and urlsplit(base_url).scheme not in ("http", "https"):
            raise ConfigurationError(f"BASE_URL is an http or https address, not {base_url!r}")
        memory = environment.get(MEMORY, "").strip()
        return cls(
            retention_ms=whole_number(environment, "JOB_RETENTION_MS", cls.retention_ms, 1),
            cache_ttl_ms=whole_number(environment, "CACHE_TTL", cls.cache_ttl_ms),
            most_at_once=whole_number(environment, "QUEUE_MAX_CONCURRENT", cls.most_at_once, 1),
            most_waiting=whole_number(environment, "QUEUE_MAX_WAITING", cls.most_waiting),
            base_url=base_url,
            seconds=whole_number(environment, SECONDS, cls.seconds, 1),
            memory=size_in_bytes(memory, MEMORY) if memory else cls.memory,
            engine=_engine(environment.get(ENGINE, "").strip()),
        )


def _engine(name: str) -> str:
    known = engine_names(Format.MERMAID)
    if name and name not in known:
        raise ConfigurationError(f"{ENGINE} is one of {', '.join(known)}, not {name!r}")
    # Who asks for one by its name is told at once that it is not there, and not by every diagram.
    for found in engines_in_force() if name else ():
        if found.engine == name and not found.ready:
            raise ConfigurationError(
                f"{ENGINE} is {name}, which cannot draw here: it needs {found.missing}"
            )
    return name
