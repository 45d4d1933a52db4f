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
    """The job that a service answers; its process cannot choose any of these."""

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
    # Files and folders that it may read besides the interpreter's; read at process start.
    read: Callable[[], Iterable[Path]] = nothing_more
    # Whether it starts programs in sandboxes of their own, inside its own.
    starts_programs: bool = False
    # Whether those need all of /proc, with the command lines of all processes.
    sees_processes: bool = False
    # Answers `ctx.service`, on the worker's event loop.
    service: Service | None = None
