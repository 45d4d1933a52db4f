"""The processes of confined kinds: what one of them is given, and nothing else.

A confined process (model/confinement.py) has two folders of its own. Its worker puts the files of a
job in the *inbox*, which the process can only read: no link that a hostile process leaves there
leads the worker to write somewhere else. The *scratch* folder is where it works: its home, its
current directory and the place of its temporary files.

It starts with the environment made here, with no descriptor but its socket and its outputs, and
locks itself down (sandbox/lockdown.py) before it imports a handler. The handlers of all confined
kinds are in each such process, so that it can serve whichever its tenant asks for.
"""

from __future__ import annotations

import importlib.util
import shutil
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coatcheck.model.handler import reference_of
from coatcheck.model.kind import Kind
from coatcheck.sandbox import runtime
from coatcheck.sandbox.lockdown import walls_here

# Settings of the interpreter and its libraries that hold no secret, kept where they are set.
_KEPT = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
)
# What libraries look at to learn how large the machine is, and a process to learn how large it is.
_MACHINE = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup"),
)
_PACKAGES = ("site-packages", "dist-packages")
# Beyond the largest limit of a kind: what was imported, and what is left from job to job.
_BASE_BYTES = 1 << 30
# What a program that a handler starts may have, by limits of its own.
_PROGRAM_BYTES = 2 << 30


@dataclass(frozen=True)
class Workspace:
    """The folders of one confined process."""

    folder: Path

    @property
    def inbox(self) -> Path:
        """Where the worker puts files for it."""
        return self.folder / "in"

    @property
    def scratch(self) -> Path:
        """Where it writes."""
        return self.folder / "tmp"

    @classmethod
    def make(cls, folder: Path) -> Workspace:
        """Make the folders."""
        made = cls(folder)
        for each in (made.inbox, made.scratch):
            each.mkdir(mode=0o700)
        return made

    def remove(self) -> None:
        """Remove them with all that is in them."""
        shutil.rmtree(self.folder, ignore_errors=True)


def environment_of(
    kinds: Sequence[Kind], workspace: Workspace, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a confined process: what is named, out of the worker's own."""
    named = {name for kind in kinds if kind.confinement for name in kind.confinement.environment}
    kept = {name: given[name] for name in (*_KEPT, *sorted(named)) if name in given}
    return runtime.environment(workspace.scratch) | kept


def confinement_fields(kinds: Sequence[Kind], workspace: Workspace) -> dict[str, Any]:
    """Return what a confined process is told to lock itself down to."""
    return {
        "locked": can_lock_down(kinds),
        "read": [str(path) for path in dict.fromkeys(_readable(kinds, workspace))],
        "listed": [str(path) for path in dict.fromkeys(_listed(kinds))],
        "write": [str(workspace.scratch), "/dev/null"],
        "data_bytes": _largest(kinds),
    }


def _largest(kinds: Sequence[Kind]) -> int | None:
    """Return what no job of these kinds needs, in bytes: a hostile one can take that much."""
    limits = []
    for kind in kinds:
        if kind.memory is None:
            return None
        starts = kind.confinement is not None and kind.confinement.starts_programs
        limits.append(max(kind.memory, _PROGRAM_BYTES if starts else 0))
    return max(limits) + _BASE_BYTES


def can_lock_down(kinds: Sequence[Kind]) -> bool:
    """Tell whether a process of these kinds can put walls around itself on this machine.

    Below Landlock nobody can mount, so bubblewrap cannot make a sandbox there. If it is all that
    there is for the programs that a kind starts, their sandbox is kept and the walls are not.
    """
    starts = any(kind.confinement and kind.confinement.starts_programs for kind in kinds)
    if not starts or not walls_here().files or shutil.which("bwrap") is None:
        return True
    return walls_here().network and importlib.util.find_spec("sandlock") is not None


def _readable(kinds: Sequence[Kind], workspace: Workspace) -> Iterator[Path]:
    yield workspace.inbox
    yield from map(Path, runtime.folders())
    yield from map(Path, runtime.configuration(network=False))
    yield from map(Path, (*runtime.DEVICES, *_MACHINE))
    yield from interpreter_folders()
    for kind in kinds:
        yield from _code_of(reference_of(kind).module)
        if kind.confinement is not None:
            yield from kind.confinement.read()
            if kind.confinement.sees_processes:
                yield Path("/proc")


def _listed(kinds: Sequence[Kind]) -> Iterator[Path]:
    """Yield the folders that packages are found in, which the import system lists."""
    modules = ("coatcheck", *(reference_of(kind).module for kind in kinds))
    for module in modules:
        yield from (path.parent for path in _code_of(module))


def interpreter_folders() -> Iterator[Path]:
    """Yield where the interpreter, its library and the installed packages lie."""
    roots = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    for root in map(Path, roots):
        yield from (root / name for name in ("bin", "lib", "lib64", "share", "pyvenv.cfg"))
    yield Path(sys.executable).resolve()
    yield from map(Path, site.getsitepackages())
    yield from (Path(entry) for entry in sys.path if Path(entry).name in _PACKAGES)
    yield from _code_of("coatcheck")


def _code_of(module: str) -> Iterator[Path]:
    """Yield the folder of the package that a module belongs to, or its file."""
    found = importlib.util.find_spec(module.partition(".")[0])
    if found is None:
        return
    if found.submodule_search_locations:
        yield from map(Path, found.submodule_search_locations)
    elif found.origin is not None:
        yield Path(found.origin)
