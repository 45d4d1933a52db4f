"""The settings in force, without their secrets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from coatcheck.client.address import without_password
from coatcheck.crypto.secret_refs import resolver_for
from coatcheck.settings import Settings

# Addresses that may hold a password.
ADDRESSES = ("database", "listen", "blobs")
SECRETS = ("pepper", "webhook_secret", "encryption_keys")


def shown(settings: Settings, url: str, api_key: str | None) -> dict[str, Any]:
    """Return every setting as it may be shown, and those of the command line."""
    values = {
        name: _address(value) if name in (*ADDRESSES, *SECRETS) else value
        for name, value in dataclasses.asdict(settings).items()
    }
    return {**values, "url": without_password(url), "api_key": "(set)" if api_key else ""}


def differing(values: Mapping[str, Any]) -> str:
    """Say which settings differ from their defaults."""
    defaults = {**dataclasses.asdict(Settings()), "api_key": ""}
    return ", ".join(
        f"{name}={value}"
        for name, value in values.items()
        if name in defaults and value != defaults[name]
    )


def _address(value: str) -> str:
    """References, paths and names of buckets are shown; of any other address only its scheme."""
    scheme, separator, _ = value.partition("://")
    plain = scheme in ("sqlite", "file", "s3", "az", "gs") and separator
    if not value or (plain and "@" not in value and "?" not in value):
        return value
    try:
        if resolver_for(value) is not None:
            return value
    except Exception:  # noqa: BLE001 - whatever a foreign resolver does, nothing is shown
        return "(hidden)"
    return f"{scheme}://(hidden)" if separator and scheme.isalnum() else "(hidden)"
