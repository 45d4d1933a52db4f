"""Building the command that starts a confined program."""

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
from coatcheck.sandbox.access import SandboxAccess, SandboxLimits
from coatcheck.sandbox.backends import SandboxBackend, bubblewrap_program, sandlock_home
from coatcheck.sandbox.bubblewrap import FILTER_DESCRIPTOR, bubblewrap_argv
from coatcheck.sandbox.identity import UidRange
from coatcheck.sandbox.seccomp import deny_filter

SUPERVISOR = Path(__file__).with_name("supervisor.py")

# The time between SIGTERM and SIGKILL.
GRACE_S = 2.0

# Calls that sandlock's supervisor needs itself. Its own filter denies them to the program.
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
    """Keyword arguments for `subprocess` and `asyncio.create_subprocess_exec`."""

    env: dict[str, str]
    cwd: str
    start_new_session: bool


@dataclass(frozen=True)
class ConfinedCommand:
    """A confined command that is ready to start."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    folder: Path
    backend: SandboxBackend

    @property
    def options(self) -> SubprocessOptions:
        """The options for `subprocess.Popen(confined.argv, **confined.options)`."""
        return SubprocessOptions(env=self.environment, cwd=str(self.folder), start_new_session=True)


def confined_command(
    argv: Sequence[str],
    *,
    access: SandboxAccess,
    limits: SandboxLimits,
    folder: Path | None,
    environment: Mapping[str, str],
    temporary: bool = False,
    backend: SandboxBackend,
    uids: UidRange | None = None,
) -> ConfinedCommand:
    """Return a command that runs `argv` confined by a backend.

    With `uids` it runs under one of these; otherwise under the uid of this process.
    """
    if not argv or any("\0" in part for part in argv):
        raise ConfigurationError("a command needs a program, and must not contain NUL")
    folder = folder or (access.write[0] if access.write else Path("/"))
    clean = runtime.environment(folder) | dict(environment)
    program, files = _program(argv[0], folder, clean["PATH"])
    command = [program, *argv[1:]]
    plan: dict[str, object] = {
        "backend": backend.value,
        "program": program,
        "seconds": limits.seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "disk_bytes": limits.disk_bytes,
        "files": limits.files,
        "grace": GRACE_S,
        "folder": str(folder),
        "folders": [str(path) for path in access.write if path.is_dir()],
        "temporary": temporary,
        "uids": uids,
        "filter": _filter(backend, owns_files=uids is not None),
    }
    if backend is SandboxBackend.LANDLOCK:
        plan["denied"] = _OF_SANDLOCK
        plan["sandlock"] = sandlock_home()
        plan["network"] = access.network
        plan["read"] = [
            *runtime.folders(),
            *runtime.configuration(access.network),
            *runtime.DEVICES,
            "/proc",
            *(str(path) for path in (*access.read, *files)),
        ]
        plan["write"] = ["/dev/null", *(str(path) for path in access.write)]
    elif backend is SandboxBackend.BUBBLEWRAP:
        bwrap = bubblewrap_program()
        command = bubblewrap_argv(
            bwrap,
            command,
            access=access,
            program=files,
            folder=folder,
            filtered=bool(plan["filter"]),
        )
        plan["filter_descriptor"] = FILTER_DESCRIPTOR
    return ConfinedCommand(
        (sys.executable, "-I", "-S", str(SUPERVISOR), json.dumps(plan), *command),
        clean,
        folder,
        backend,
    )


def _filter(backend: SandboxBackend, *, owns_files: bool) -> str:
    # As root, the rlimits backend always uses another user.
    owns_files = owns_files or (backend is SandboxBackend.RLIMITS and os.geteuid() == 0)
    without = _OF_SANDLOCK if backend is SandboxBackend.LANDLOCK else ()
    return base64.b64encode(deny_filter(owns_files=owns_files, without=without) or b"").decode()


def _program(name: str, folder: Path, path: str) -> tuple[str, tuple[Path, ...]]:
    """Return the program's path, and the files that it needs to be readable; none if it does not
    exist.
    """
    found = shutil.which(name, path=path) if "/" not in name else str(folder / name)
    if found is None or not Path(found).exists():
        return name, ()
    return found, tuple(dict.fromkeys((Path(found), Path(found).resolve())))
