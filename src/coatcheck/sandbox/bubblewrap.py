"""The command line that runs a program in namespaces, by bubblewrap.

The namespaces contain only what is bound. `/` is never bound, not even for reading: as root, the
program would own most of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coatcheck.sandbox import runtime
from coatcheck.sandbox.access import SandboxAccess

# The descriptor from which bubblewrap reads the seccomp filter.
FILTER_DESCRIPTOR = 10


def bubblewrap_argv(
    bwrap: str,
    argv: Sequence[str],
    *,
    access: SandboxAccess,
    program: Sequence[Path],
    folder: Path,
    filtered: bool,
) -> list[str]:
    """Return the arguments that run `argv` in namespaces that contain only what it may access.

    If `filtered`, the program runs under the filter that is read from FILTER_DESCRIPTOR.
    """
    line = [bwrap, "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    if filtered:
        line += ["--seccomp", str(FILTER_DESCRIPTOR)]
    if access.network:
        line.append("--share-net")
    for name in runtime.folders():
        if Path(name).is_symlink():
            line += ["--symlink", str(Path(name).readlink()), name]
        else:
            line += ["--ro-bind", name, name]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for name in runtime.configuration(access.network):
        line += ["--ro-bind", str(Path(name).resolve()), name]
    for path in (*access.read, *program):
        if not _in_runtime(path):
            line += ["--ro-bind", str(path.resolve()), str(path)]
    for path in access.write:
        line += ["--bind", str(path.resolve()), str(path)]
    # Parents of bound paths are in memory and must not be writable. Root owns the kernel's settings
    # in /proc/sys, even without any capability.
    for name in ("/proc", "/dev", "/"):
        line += ["--remount-ro", name]
    return [*line, "--chdir", str(folder), "--", *argv]


def _in_runtime(path: Path) -> bool:
    return str(path).startswith(tuple(f"{name}/" for name in runtime.FOLDERS))
