"""Surfaces found through entry points, including the built-in ones.

Each entry point of the group `coatcheck.surfaces` names a callable without arguments that returns a
surface. A surface is skipped, with the reason, if its libraries are not installed or if it is not
enabled (SurfaceDisabled). The others still work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from typing import NamedTuple

from coatcheck.app import App
from coatcheck.errors import ConfigurationError
from coatcheck.http.surfaces.base import Surface, SurfaceDisabled

GROUP = "coatcheck.surfaces"


class Installed(NamedTuple):
    """A surface by name, or the reason why it cannot be used."""

    name: str
    surface: Surface | None
    missing: str = ""
    advice: str = ""


def installed_surfaces() -> Iterator[Installed]:
    """Find every installed surface; raise ConfigurationError if the settings of one are invalid."""
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            make = entry.load()
        except ModuleNotFoundError as error:
            advice = f"run pip install 'coatcheck[{entry.name}]' to serve it"
            missing = f"it needs {error.name}, which is not installed"
            yield Installed(entry.name, None, missing, advice)
            continue
        try:
            surface = make()
        except SurfaceDisabled as disabled:
            yield Installed(entry.name, None, "it is not enabled", str(disabled))
            continue
        if not isinstance(surface, Surface):
            raise ConfigurationError(f"entry point {entry.name!r} of {GROUP} returns no surface")
        yield Installed(entry.name, surface)


def app_of_surfaces(beside: Iterable[Surface] = ()) -> App:
    """Return an app with every usable surface; those in `beside` replace installed ones of that
    name.
    """
    app = App()
    skipped = []
    configured = list(beside)
    for name, surface, missing, advice in installed_surfaces():
        if any(each.name == name for each in configured):
            continue  # the configured one is used
        if surface is None:
            skipped.append(f"{name}: {missing}; {advice}")
        else:
            app.use(surface)
    for surface in configured:
        app.use(surface)
    if not app.surfaces:
        raise ConfigurationError(
            "there is neither an app nor a surface to serve: name an app, such as tasks:app, or "
            "install a surface with pip install 'coatcheck[surfaces]'"
            + "".join(f"\n  {each}" for each in skipped)
        )
    return app
