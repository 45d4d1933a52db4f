"""A command with what it may reach, made into what `subprocess` needs."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import runtime
from coatcheck.sandbox.bubblewrap import in_namespaces
from coatcheck.sandbox.reach import Limits, Reach
from coatcheck.sandbox.strength import Strength, bubblewrap_program, sandlock_home

KEEPER = Path(__file__).with_name("keeper.py")

# From SIGTERM to SIGKILL.
GRACE_S = 2.0


class Options(TypedDict):
    """The keyword arguments for `subprocess` and `asyncio.create_subprocess_exec` alike."""

    env: dict[str, str]
    cwd: str
    start_new_session: bool


@dataclass(frozen=True)
class Confined:
    """A command that is ready to be started, confined."""

    argv: tuple[str, ...]
    environment: dict[str, str] = field(repr=False)
    folder: Path
    strength: Strength

    @property
    def options(self) -> Options:
        """What to start `argv` with: `subprocess.Popen(confined.argv, **confined.options)`."""
        return Options(env=self.environment, cwd=str(self.folder), start_new_session=True)


def confined_command(
    argv: Sequence[str],
    *,
    reach: Reach,
    limits: Limits,
    folder: Path | None,
    environment: Mapping[str, str],
    temporary: bool = False,
    strength: Strength,
) -> Confined:
    """Return how to start `argv`, confined in the way that `strength` says."""
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
        "grace": GRACE_S,
        "folder": str(folder),
        "temporary": temporary,
    }
    if strength is Strength.LANDLOCK:
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
    elif strength is Strength.RLIMITS:
        plan["write"] = [str(path) for path in reach.write]
    elif strength is Strength.BUBBLEWRAP:
        bwrap = bubblewrap_program()
        command = in_namespaces(bwrap, command, reach=reach, program=files, folder=folder)
    return Confined(
        (sys.executable, "-I", "-S", str(KEEPER), json.dumps(plan), *command),
        clean,
        folder,
        strength,
    )


def _program(name: str, folder: Path, path: str) -> tuple[str, tuple[Path, ...]]:
    """Find the program's file, as it is called and as it lies; nothing when there is none."""
    found = shutil.which(name, path=path) if "/" not in name else str(folder / name)
    if found is None or not Path(found).exists():
        return name, ()
    return found, tuple(dict.fromkeys((Path(found), Path(found).resolve())))
