"""Read a surface's own settings from the environment, with defaults."""

from __future__ import annotations

from collections.abc import Mapping

from coatcheck.errors import ConfigurationError


def whole_number(environment: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    """Read an integer that is at least `least`; raise ConfigurationError otherwise."""
    text = environment.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ConfigurationError(f"{name} must be a whole number of at least {least}, not {text!r}")
    return int(text)


def flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Read a boolean; raise ConfigurationError for any other text."""
    text = environment.get(name, "").strip().lower()
    if text in ("", "true", "false", "1", "0", "yes", "no"):
        return default if not text else text in ("true", "1", "yes")
    raise ConfigurationError(f"{name} must be true or false, not {text!r}")
