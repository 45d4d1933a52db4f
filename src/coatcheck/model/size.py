"""Sizes in options: 1048576, "512MB", "1.5GB", "256MiB"."""

from __future__ import annotations

import re

from coatcheck.errors import ConfigurationError

Size = int | str

_UNITS = {
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B|B)")


def size_in_bytes(size: Size, what: str) -> int:
    """Return a size in bytes; bare numbers are bytes. `what` names it in errors."""
    if isinstance(size, str):
        found = _SIZE.fullmatch(size.strip())
        if found is None:
            raise ConfigurationError(
                f'{what}: {size!r} is not a size; write bytes or "512MB", "1.5GB", "256MiB"'
            )
        size = round(float(found[1]) * _UNITS[found[2]])
    if size <= 0:
        raise ConfigurationError(f"{what} must be more than 0, not {size!r}")
    return size


def in_megabytes(size: int) -> str:
    """Format a size for people."""
    return f"{size / 1000**2:.3g} MB" if size < 1000**3 else f"{size / 1000**3:.3g} GB"
