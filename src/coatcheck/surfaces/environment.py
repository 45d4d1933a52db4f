"""Reading the settings that a surface's document names: from the environment, with defaults."""

from __future__ import annotations

from collections.abc import Mapping

from coatcheck.errors import ConfigurationError


def whole_number(environment: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    """Read a whole number that is not below `least`."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ConfigurationError(f"{name} is a whole number from {least} on, not {text!r}")
    return int(text)


def flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read yes or no."""
    text = environment.get(name, "").strip().lower()
    if text in ("", "true", "false", "1", "0", "yes", "no"):
        return default if not text else text in ("true", "1", "yes")
    raise ConfigurationError(f"{name} is true or false, not {text!r}")
