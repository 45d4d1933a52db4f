"""How the processes of a kind are confined.

A confined kind reads hostile input. Its handler runs in a process that belongs to one tenant, with
a clean environment, no network, and no file but the interpreter's, its job's and its own temporary
ones (worker/processes/confined.py). Everything that needs more than that, the store, a secret or
the network, stays in the worker: the handler asks for it by name (`ctx.service`), and the kind's
service answers, bound to the tenant, the id and the input of the job. A service must treat the body
of a question as hostile: it comes from the process that has read the input.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class ServedJob(NamedTuple):
    """The job that a service answers; the process cannot choose any of it."""

    tenant: str
    id: str
    input: str  # a JSON text


Service = Callable[[ServedJob, str, bytes], Awaitable[bytes]]


def nothing_more() -> tuple[Path, ...]:
    """Return no further files to read."""
    return ()


@dataclass(frozen=True, slots=True)
class Confinement:
    """The parts of a confined process that differ from kind to kind."""

    # Names of the environment variables that the handler may read; never one that holds a secret.
    environment: tuple[str, ...] = ()
    # Files and folders to read beside the interpreter's, looked up when a process is started.
    read: Callable[[], Iterable[Path]] = nothing_more
    # Whether it starts programs in a sandbox of their own, which may have to fit in its own.
    starts_programs: bool = False
    # Whether these need all of /proc, and with it the command lines of all processes here.
    sees_processes: bool = False
    # Who answers `ctx.service`, on the worker's own loop.
    service: Service | None = None
