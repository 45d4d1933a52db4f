"""Confining a command with the best backend of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coatcheck.sandbox.access import SandboxAccess, SandboxLimits
from coatcheck.sandbox.backends import SandboxBackend
from coatcheck.sandbox.command import ConfinedCommand, confined_command
from coatcheck.sandbox.detect import detect_sandbox, detect_users
from coatcheck.sandbox.identity import is_enterable_by_all, is_open_to_all


def confine(
    argv: Sequence[str],
    *,
    access: SandboxAccess,
    limits: SandboxLimits,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    temporary: bool = False,
    backend: SandboxBackend | None = None,
) -> ConfinedCommand:
    """Return a command that runs `argv` with restricted access.

    `folder` is its working folder, by default the first that it may write to. If it is `temporary`,
    the supervisor removes it should this process die first. `environment` is added to the clean
    one. `backend` is the strongest available, unless given. The program's own file is always
    readable; the caller must name what else it needs beyond the system's runtime.

    As root, the program gets its own uid, unless some of `access` is closed to other users. Its
    folders are given to that uid permanently.
    """
    backend = backend or detect_sandbox().backend
    folder = folder or (access.write[0] if access.write else Path("/"))
    uids = detect_users(backend).uids
    if not (is_open_to_all(access.read) and is_enterable_by_all((*access.write, folder))):
        uids = None
    return confined_command(
        argv,
        access=access,
        limits=limits,
        folder=folder,
        environment=environment or {},
        temporary=temporary,
        backend=backend,
        uids=uids,
    )
