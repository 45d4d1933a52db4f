"""The command line that gives a program namespaces of its own, by bubblewrap.

Nothing is there but what is bound. `/` is never bound, not even to be read: as root, the program
would be the owner of most of what it then sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coatcheck.sandbox import runtime
from coatcheck.sandbox.reach import SandboxAccess

# Where the supervisor leaves the seccomp filter to be read.
FILTER_DESCRIPTOR = 10


def in_namespaces(
    bwrap: str,
    argv: Sequence[str],
    *,
    reach: SandboxAccess,
    program: Sequence[Path],
    folder: Path,
    filtered: bool,
) -> list[str]:
    """Return the arguments that run `argv` in namespaces that hold only what it may reach.

    `filtered`: the program is put under the filter that is read from FILTER_DESCRIPTOR.
    """
    line = [bwrap, "--unshare-all", "--new-session", "--die-with-parent", "--cap-drop", "ALL"]
    if filtered:
        line += ["--seccomp", str(FILTER_DESCRIPTOR)]
    if reach.network:
        line.append("--share-net")
    for name in runtime.folders():
        if Path(name).is_symlink():
            line += ["--symlink", str(Path(name).readlink()), name]
        else:
            line += ["--ro-bind", name, name]
    line += ["--proc", "/proc", "--dev", "/dev"]
    for name in runtime.configuration(reach.network):
        line += ["--ro-bind", str(Path(name).resolve()), name]
    for path in (*reach.read, *program):
        if not _in_runtime(path):
            line += ["--ro-bind", str(path.resolve()), str(path)]
    for path in reach.write:
        line += ["--bind", str(path.resolve()), str(path)]
    # What was made on the way to a bound path lies in memory, and is nobody's to fill. Root owns
    # the kernel's settings in /proc/sys, also without any capability.
    for name in ("/proc", "/dev", "/"):
        line += ["--remount-ro", name]
    return [*line, "--chdir", str(folder), "--", *argv]


def _in_runtime(path: Path) -> bool:
    return str(path).startswith(tuple(f"{name}/" for name in runtime.FOLDERS))
