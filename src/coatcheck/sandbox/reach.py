"""What a confined program may reach, and how much of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from coatcheck.errors import ConfigurationError

MIB = 1024 * 1024


@dataclass(frozen=True)
class SandboxLimits:
    """How long, and how much of this machine."""

    seconds: float = 30.0  # of wall clock, and of processor time for each process
    memory_bytes: int = 512 * MIB  # of all its processes together
    processes: int = 32  # at one time; threads are not counted
    file_bytes: int = 64 * MIB  # for each file that it writes
    disk_bytes: int = 256 * MIB  # of all files in the folders that it writes to
    files: int = 50_000  # in these folders

    def __post_init__(self) -> None:
        if not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ConfigurationError(f"limits: seconds must be above 0, not {self.seconds}")
        for name in ("memory_bytes", "processes", "file_bytes", "disk_bytes", "files"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"limits: {name} must be at least 1")


@dataclass(frozen=True)
class SandboxAccess:
    """The files and folders that it may read and write beyond the system's runtime.

    A folder means everything below it. What may be written may be read.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    network: bool = False

    def __post_init__(self) -> None:
        for path in (*self.read, *self.write):
            if not path.is_absolute():
                raise ConfigurationError(f"reach: {path} is not an absolute path")
            if not path.exists():
                raise ConfigurationError(f"reach: there is no {path}")
