"""The surfaces that the config file asks for: the proxy, where it has rules."""

from __future__ import annotations

from coatcheck.errors import ConfigurationError
from coatcheck.http.surface import Surface
from coatcheck.settings import Settings, read_tables


def configured_surfaces(settings: Settings) -> list[Surface]:
    """Make the surfaces of a server with these settings; raises ConfigurationError."""
    tables = read_tables(settings, "proxy")
    if not tables:
        return []
    try:
        from coatcheck.surfaces.proxy.rule import read_rules  # noqa: PLC0415 - an optional part
        from coatcheck.surfaces.proxy.surface import ProxySurface  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"the rules in {settings.config} need {error.name}: pip install 'coatcheck[proxy]'"
        ) from error
    try:
        return [ProxySurface(read_rules(tables))]
    except ConfigurationError as error:
        raise ConfigurationError(f"{settings.config}: {error}") from error
