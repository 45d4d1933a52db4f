"""The surfaces that packages bring, found by their entry points: the built-in ones among them.

Each entry point of the group `coatcheck.surfaces` names something to call without arguments that
returns a surface. One whose libraries are not there, or that nothing here asks for
(SurfaceDisabled), is left out, and said so: the others work.
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
    """A surface by its name, or why it cannot be used."""

    name: str
    surface: Surface | None
    missing: str = ""
    advice: str = ""


def installed_surfaces() -> Iterator[Installed]:
    """Find every surface there is; raises ConfigurationError where one's settings are wrong."""
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        try:
            make = entry.load()
        except ModuleNotFoundError as error:
            advice = f"pip install 'coatcheck[{entry.name}]', where it is to be served"
            missing = f"it needs {error.name}, which is not installed"
            yield Installed(entry.name, None, missing, advice)
            continue
        try:
            surface = make()
        except SurfaceDisabled as asks:
            yield Installed(entry.name, None, "nothing asks for it", str(asks))
            continue
        if not isinstance(surface, Surface):
            raise ConfigurationError(f"the entry point {entry.name!r} of {GROUP} gives no surface")
        yield Installed(entry.name, surface)


def app_of_surfaces(beside: Iterable[Surface] = ()) -> App:
    """Return an app with every surface that can be used, and with those `beside` them."""
    app = App()
    left_out = []
    asked_for = list(beside)
    for name, surface, missing, advice in installed_surfaces():
        if any(each.name == name for each in asked_for):
            continue  # as it is configured
        if surface is None:
            left_out.append(f"{name}: {missing}; {advice}")
        else:
            app.use(surface)
    for surface in asked_for:
        app.use(surface)
    if not app.surfaces:
        raise ConfigurationError(
            "there is no app to serve, and no surface either; name an app, such as tasks:app, or "
            "install one: pip install 'coatcheck[surfaces]'"
            + "".join(f"\n  {each}" for each in left_out)
        )
    return app
