"""Which calls become jobs."""

from __future__ import annotations

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.middleware.routes import Routes

from .requests import scope_of


@pytest.mark.parametrize(
    ("route", "method", "path", "meant"),
    [
        ("POST /render", "POST", "/render", True),
        ("POST /render", "GET", "/render", False),
        ("POST /render", "POST", "/render/", False),
        ("POST /render", "POST", "/renders", False),
        ("POST /reports/*", "POST", "/reports/2026/may", True),
        ("POST /reports/*", "POST", "/reports", False),
        ("POST /reports/{id}/run", "POST", "/reports/7/run", True),
        ("POST /reports/{id:int}/run", "POST", "/reports/7/run", True),
        ("POST /reports/*/run", "POST", "/reports/7/run", True),
        ("POST /reports/*/run", "POST", "/reports/7/8/run", False),
        ("POST /reports/{id}/run", "POST", "/reports/7/8/run", False),
        ("POST /a.b", "POST", "/aXb", False),
    ],
)
def test_what_is_meant(route: str, method: str, path: str, meant: bool) -> None:
    assert Routes.read([route]).have(scope_of(method, path)) is meant


def test_a_path_is_looked_at_below_the_mount() -> None:
    scope = {**scope_of("POST", "/api/render"), "root_path": "/api"}
    assert Routes.read(["POST /render"]).have(scope)


@pytest.mark.parametrize(
    "routes", [[], "POST /render", ["/render"], ["POST render"], ["POST /a*b"], ["POST /{a"]]
)
def test_what_is_no_route_is_said(routes: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="route"):
        Routes.read(routes)
