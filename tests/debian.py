"""Debian programs that some tests need, installed if possible."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache


@cache
def program_of(package: str, name: str, patience_s: float = 100) -> str | None:
    """Return the path of a program, installing its package if needed; None if unavailable."""
    return _found(name) or _installed(package, name, patience_s)


def _found(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def _installed(package: str, name: str, patience_s: float) -> str | None:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    install = ["apt-get", "install", "-y", "--no-install-recommends", package]
    for command in (install, ["apt-get", "update"], install):
        subprocess.run(
            [*command, "-o", "DPkg::Lock::Timeout=60"],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=patience_s,
            check=False,
        )
        if _found(name):
            break
    return _found(name)
