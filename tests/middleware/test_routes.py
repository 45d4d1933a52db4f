"""Which requests become jobs."""

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
def test_route_matches(route: str, method: str, path: str, meant: bool) -> None:
    assert Routes.parse([route]).match(scope_of(method, path)) is meant


def test_path_is_matched_below_the_mount() -> None:
    scope = {**scope_of("POST", "/api/render"), "root_path": "/api"}
    assert Routes.parse(["POST /render"]).match(scope)


@pytest.mark.parametrize(
    "routes", [[], "POST /render", ["/render"], ["POST render"], ["POST /a*b"], ["POST /{a"]]
)
def test_invalid_routes_are_rejected(routes: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="route"):
        Routes.parse(routes)
