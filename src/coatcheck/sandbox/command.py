"""A command with what it may reach, made into what `subprocess` needs."""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import runtime
from coatcheck.sandbox.backends import SandboxBackend, bubblewrap_program, sandlock_home
from coatcheck.sandbox.bubblewrap import FILTER_DESCRIPTOR, in_namespaces
from coatcheck.sandbox.identity import UidRange
from coatcheck.sandbox.reach import SandboxAccess, SandboxLimits
from coatcheck.sandbox.seccomp import deny_filter

SUPERVISOR = Path(__file__).with_name("supervisor.py")

# From SIGTERM to SIGKILL.
GRACE_S = 2.0

# Calls that sandlock's supervisor makes itself. It denies them to the program by its own filter.
_OF_SANDLOCK = (
    "memfd_create",
    "pidfd_getfd",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "semget",
    "shmget",
)


class SubprocessOptions(TypedDict):
    """The keyword arguments for `subprocess` and `asyncio.create_subprocess_exec` alike."""

    env: dict[str, str]
    cwd: str
    start_new_session: bool


@dataclass(frozen=True)
class ConfinedCommand:
    """A command that is ready to be started, confined."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    folder: Path
    strength: SandboxBackend

    @property
    def options(self) -> SubprocessOptions:
        """What to start `argv` with: `subprocess.Popen(confined.argv, **confined.options)`."""
        return SubprocessOptions(env=self.environment, cwd=str(self.folder), start_new_session=True)


def confined_command(
    argv: Sequence[str],
    *,
    reach: SandboxAccess,
    limits: SandboxLimits,
    folder: Path | None,
    environment: Mapping[str, str],
    temporary: bool = False,
    strength: SandboxBackend,
    uids: UidRange | None = None,
) -> ConfinedCommand:
    """Return how to start `argv`, confined in the way that `strength` says.

    With `uids` it runs under one of these; without, under the uid of this process.
    """
    if not argv or any("\0" in part for part in argv):
        raise ConfigurationError("a command needs a program, and no part of it may hold a NUL")
    folder = folder or (reach.write[0] if reach.write else Path("/"))
    clean = runtime.environment(folder) | dict(environment)
    program, files = _program(argv[0], folder, clean["PATH"])
    command = [program, *argv[1:]]
    plan: dict[str, object] = {
        "strength": strength.value,
        "program": program,
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "disk_bytes": limits.disk_bytes,
        "files": limits.files,
        "grace": GRACE_S,
        "folder": str(folder),
        "folders": [str(path) for path in reach.write if path.is_dir()],
        "temporary": temporary,
        "uids": uids,
        "filter": _filter(strength, owns_files=uids is not None),
    }
    if strength is SandboxBackend.LANDLOCK:
        plan["denied"] = _OF_SANDLOCK
        plan["sandlock"] = sandlock_home()
        plan["network"] = reach.network
        plan["read"] = [
            *runtime.folders(),
            *runtime.configuration(reach.network),
            *runtime.DEVICES,
            "/proc",
            *(str(path) for path in (*reach.read, *files)),
        ]
        plan["write"] = ["/dev/null", *(str(path) for path in reach.write)]
    elif strength is SandboxBackend.BUBBLEWRAP:
        bwrap = bubblewrap_program()
        command = in_namespaces(
            bwrap,
            command,
            reach=reach,
            program=files,
            folder=folder,
            filtered=bool(plan["filter"]),
        )
        plan["filter_descriptor"] = FILTER_DESCRIPTOR
    return ConfinedCommand(
        (sys.executable, "-I", "-S", str(SUPERVISOR), json.dumps(plan), *command),
        clean,
        folder,
        strength,
    )


def _filter(strength: SandboxBackend, *, owns_files: bool) -> str:
    # As root, limits alone are for a user of its own in any case.
    owns_files = owns_files or (strength is SandboxBackend.RLIMITS and os.geteuid() == 0)
    without = _OF_SANDLOCK if strength is SandboxBackend.LANDLOCK else ()
    return base64.b64encode(deny_filter(owns_files=owns_files, without=without) or b"").decode()


def _program(name: str, folder: Path, path: str) -> tuple[str, tuple[Path, ...]]:
    """Find the program's file, as it is called and as it lies; nothing when there is none."""
    found = shutil.which(name, path=path) if "/" not in name else str(folder / name)
    if found is None or not Path(found).exists():
        return name, ()
    return found, tuple(dict.fromkeys((Path(found), Path(found).resolve())))
