"""Surfaces that the config file turns on: the proxy if it has rules, foreman if it has a table."""

from __future__ import annotations

import os
from typing import Any

from coatcheck.errors import ConfigurationError
from coatcheck.http.surfaces.base import Surface
from coatcheck.settings import Settings, read_table, read_tables


def configured_surfaces(settings: Settings) -> list[Surface]:
    """Create the surfaces of a server with these settings; raise ConfigurationError if one is
    invalid.
    """
    rules, foreman = read_tables(settings, "proxy"), read_table(settings, "foreman")
    try:
        return [
            *([_proxy(rules)] if rules else []),
            *([_foreman(foreman)] if foreman else []),
        ]
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{settings.config} needs {error.name}: run pip install 'coatcheck[proxy]'"
        ) from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{settings.config}: {error}") from error


def _proxy(tables: list[dict[str, Any]]) -> Surface:
    from coatcheck.surfaces.proxy.rule import read_rules  # noqa: PLC0415 - optional
    from coatcheck.surfaces.proxy.surface import ProxySurface  # noqa: PLC0415

    return ProxySurface(read_rules(tables))


def _foreman(table: dict[str, Any]) -> Surface:
    from coatcheck.surfaces.foreman.settings import from_table  # noqa: PLC0415 - optional
    from coatcheck.surfaces.foreman.surface import ForemanSurface  # noqa: PLC0415

    return ForemanSurface({**from_table(table), **os.environ})
