"""Every surface that ships with Coatcheck, for tests that walk all endpoints."""

from __future__ import annotations

from importlib.metadata import entry_points

from coatcheck.http.surface import Surface
from coatcheck.mcp.surface import McpSurface
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.graphs.surface import GraphSurface
from coatcheck.surfaces.ingest.surface import IngestSurface
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from coatcheck.surfaces.render.surface import RenderSurface
from coatcheck.surfaces.tasks.surface import TaskSurface

NOWHERE = "http://127.0.0.1:9"  # nothing listens there


def every_surface(upstream: str = NOWHERE) -> list[Surface]:
    """Make one surface of each kind; those that call another service call `upstream`."""
    rules = read_rules([{"match": "POST /reports", "target": upstream, "name": "reports"}])
    return [
        TaskSurface({}),
        ForemanSurface({"FOREMAN_OLLAMA_URL": upstream}),
        RenderSurface({}),
        GraphSurface({}),
        IngestSurface({}),
        ProxySurface(rules),
        McpSurface(),
    ]


def names_of_entry_points() -> set[str]:
    """Return the names of the surfaces that `coatcheck serve` finds."""
    return {each.name for each in entry_points(group="coatcheck.surfaces")}
