"""The access and the limits of a confined program."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from coatcheck.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True)
class SandboxLimits:
    """The resource limits of a program."""

    seconds: float = 30.0  # of wall-clock time, and of CPU time per process
    memory_bytes: int = 512 * MIB  # of all its processes together
    processes: int = 32  # at once; threads are not counted
    file_bytes: int = 64 * MIB  # per file that it writes
    disk_bytes: int = 256 * MIB  # of all files in its writable folders
    files: int = 50_000  # in these folders

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ConfigurationError(f"limits: seconds must be above 0, not {self.seconds}")
        for name in ("memory_bytes", "processes", "file_bytes", "disk_bytes", "files"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"limits: {name} must be at least 1")


@dataclass(frozen=True)
class SandboxAccess:
    """The files and folders that a program may read and write beyond the system's runtime.

    A folder includes everything below it. A writable path is readable.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    network: bool = False

    def __post_init__(self) -> None:
        for path in (*self.read, *self.write):
            if not path.is_absolute():
                raise ConfigurationError(f"sandbox access: {path} is not an absolute path")
            if not path.exists():
                raise ConfigurationError(f"sandbox access: {path} does not exist")
