"""From a command and what it may reach to what `subprocess` needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coatcheck.sandbox.backends import SandboxBackend
from coatcheck.sandbox.command import ConfinedCommand, confined_command
from coatcheck.sandbox.detect import sandbox_in_force, users_in_force
from coatcheck.sandbox.identity import is_enterable_by_all, is_open_to_all
from coatcheck.sandbox.reach import SandboxAccess, SandboxLimits


def confine(
    argv: Sequence[str],
    *,
    reach: SandboxAccess,
    limits: SandboxLimits,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    temporary: bool = False,
    strength: SandboxBackend | None = None,
) -> ConfinedCommand:
    """Return how to start `argv` so that it reaches no more than it may.

    `folder` is where it works, the first that it may write to unless said otherwise.
    Where it is `temporary`, it is removed should this process die before it could do so itself.
    `environment` is added to the clean one. `strength` is the best there is, or the one named.
    The program's own file may always be read; what else it needs beyond the system's runtime is
    for the caller to name.

    As root the program gets a uid of its own, unless some of `reach` lies where only this user
    gets to. Its folders are given to that uid for good.
    """
    strength = strength or sandbox_in_force().strength
    folder = folder or (reach.write[0] if reach.write else Path("/"))
    uids = users_in_force(strength).uids
    if not (is_open_to_all(reach.read) and is_enterable_by_all((*reach.write, folder))):
        uids = None
    return confined_command(
        argv,
        reach=reach,
        limits=limits,
        folder=folder,
        environment=environment or {},
        temporary=temporary,
        strength=strength,
        uids=uids,
    )
