"""The sandbox backends, and the packages they need."""

from __future__ import annotations

import importlib.util
import shutil
from enum import StrEnum
from pathlib import Path

from coatcheck.errors import ConfigurationError


class SandboxBackend(StrEnum):
    """The ways to confine a program, strongest first."""

    LANDLOCK = "landlock"
    BUBBLEWRAP = "bubblewrap"
    RLIMITS = "rlimits"


def require_installed(backend: SandboxBackend) -> None:
    """Raise ConfigurationError unless the package that a backend needs is installed."""
    if backend is SandboxBackend.LANDLOCK:
        sandlock_home()
    elif backend is SandboxBackend.BUBBLEWRAP:
        bubblewrap_program()


def sandlock_home() -> str:
    """Return the folder that contains the package `sandlock`."""
    found = importlib.util.find_spec("sandlock")
    if found is None or found.origin is None:
        raise ConfigurationError("the package sandlock is not installed")
    return str(Path(found.origin).parent.parent)


def bubblewrap_program() -> str:
    """Return the path of the program `bwrap`."""
    found = shutil.which("bwrap")
    if found is None:
        raise ConfigurationError("the program bwrap is not installed")
    return found
