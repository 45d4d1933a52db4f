"""Processes of confined kinds: what they may access.

A confined process (model/confinement.py) has two folders. Its worker puts the files of a job in the
*inbox*, which the process can only read, so a hostile process cannot leave a link there that
redirects the worker's writes. The *scratch* folder is its home, its current directory and its
folder for temporary files.

The process starts with the environment that is made here and with no descriptors but its socket and
its outputs. It locks itself down (sandbox/lockdown.py) before it imports a handler. Each such
process has the handlers of all confined kinds, so that it can run any of them for its tenant.
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
from coatcheck.sandbox.lockdown import detect_protections

# Variables of the interpreter and its libraries that hold no secret: kept if set.
_KEPT = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONPATH"),
    *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8"),
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
)
# Files from which libraries learn the size of the machine, and a process its own size.
_MACHINE = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system/cpu", "/sys/fs/cgroup"),
)
_PACKAGES = ("site-packages", "dist-packages")
# Added to the largest limit of a kind: imported modules, and memory kept from job to job.
_BASE_BYTES = 1 << 30
# The limit of a program that a handler starts, under its own limits.
_PROGRAM_BYTES = 2 << 30


@dataclass(frozen=True)
class Workspace:
    """The folders of one confined process."""

    folder: Path

    @property
    def inbox(self) -> Path:
        """The folder in which the worker puts files for the process."""
        return self.folder / "in"

    @property
    def scratch(self) -> Path:
        """The folder in which the process may write."""
        return self.folder / "tmp"

    @classmethod
    def make(cls, folder: Path) -> Workspace:
        """Create the folders."""
        made = cls(folder)
        for each in (made.inbox, made.scratch):
            each.mkdir(mode=0o700)
        return made

    def remove(self) -> None:
        """Remove the folders and their contents."""
        shutil.rmtree(self.folder, ignore_errors=True)


def environment_of(
    kinds: Sequence[Kind], workspace: Workspace, given: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of a confined process: only named variables of the worker's."""
    named = {name for kind in kinds if kind.confinement for name in kind.confinement.environment}
    kept = {name: given[name] for name in (*_KEPT, *sorted(named)) if name in given}
    return runtime.environment(workspace.scratch) | kept


def confinement_fields(kinds: Sequence[Kind], workspace: Workspace) -> dict[str, Any]:
    """Return the part of the hello message that tells a process how to lock itself down."""
    return {
        "locked": can_lock_down(kinds),
        "read": [str(path) for path in dict.fromkeys(_readable(kinds, workspace))],
        "listed": [str(path) for path in dict.fromkeys(_listed(kinds))],
        "write": [str(workspace.scratch), "/dev/null"],
        "data_bytes": _largest(kinds),
    }


def _largest(kinds: Sequence[Kind]) -> int | None:
    """Return a memory limit, in bytes, that no job of these kinds needs to exceed."""
    limits = []
    for kind in kinds:
        if kind.memory is None:
            return None
        starts = kind.confinement is not None and kind.confinement.starts_programs
        limits.append(max(kind.memory, _PROGRAM_BYTES if starts else 0))
    return max(limits) + _BASE_BYTES


def can_lock_down(kinds: Sequence[Kind]) -> bool:
    """Return whether a process of these kinds can be locked down on this machine.

    Under Landlock nobody can mount, so bubblewrap cannot create a sandbox. If bubblewrap is the
    only sandbox for the programs that a kind starts, their sandbox is kept and the process is not
    locked down.
    """
    starts = any(kind.confinement and kind.confinement.starts_programs for kind in kinds)
    if not starts or not detect_protections().files or shutil.which("bwrap") is None:
        return True
    return detect_protections().network and importlib.util.find_spec("sandlock") is not None


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
    """Yield the folders of packages, which the import system lists."""
    modules = ("coatcheck", *(reference_of(kind).module for kind in kinds))
    for module in modules:
        yield from (path.parent for path in _code_of(module))


def interpreter_folders() -> Iterator[Path]:
    """Yield the folders of the interpreter, its library and the installed packages."""
    roots = dict.fromkeys((sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix))
    for root in map(Path, roots):
        yield from (root / name for name in ("bin", "lib", "lib64", "share", "pyvenv.cfg"))
    yield Path(sys.executable).resolve()
    yield from map(Path, site.getsitepackages())
    yield from (Path(entry) for entry in sys.path if Path(entry).name in _PACKAGES)
    yield from _code_of("coatcheck")


def _code_of(module: str) -> Iterator[Path]:
    """Yield the folder of a module's package, or its file."""
    found = importlib.util.find_spec(module.partition(".")[0])
    if found is None:
        return
    if found.submodule_search_locations:
        yield from map(Path, found.submodule_search_locations)
    elif found.origin is not None:
        yield Path(found.origin)
