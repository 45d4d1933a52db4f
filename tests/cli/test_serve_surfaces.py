"""`coatcheck serve` without an app: the installed surfaces."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces import installed
from coatcheck.surfaces.installed import GROUP, app_of_surfaces, installed_surfaces


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[EntryPoint]:
    found: list[EntryPoint] = []
    monkeypatch.setattr(installed, "entry_points", lambda group: found if group == GROUP else [])
    return found


def test_installed_package_adds_its_surface(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("reports", "examples.own_surface:Reports", GROUP))
    app = app_of_surfaces()
    assert (list(app.surfaces), list(app.kinds)) == (["reports"], ["report"])


def test_surface_with_missing_libraries_is_skipped(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("a", "no_such_library.surface:Surface", GROUP))
    entries.append(EntryPoint("reports", "examples.own_surface:Reports", GROUP))
    missing, there = installed_surfaces()
    assert (missing.surface, missing.missing) == (
        None,
        "it needs no_such_library, which is not installed",
    )
    assert there.surface is not None
    assert list(app_of_surfaces().surfaces) == ["reports"]


def test_serve_without_surfaces_advises_what_to_install(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("a", "no_such_library.surface:Surface", GROUP))
    with pytest.raises(ConfigurationError, match=r"name an app[\s\S]*a: it needs no_such_library"):
        app_of_surfaces()


def test_invalid_surface_is_named(entries: list[EntryPoint]) -> None:
    entries.append(EntryPoint("wrong", "builtins:dict", GROUP))
    with pytest.raises(ConfigurationError, match="'wrong'"):
        app_of_surfaces()
