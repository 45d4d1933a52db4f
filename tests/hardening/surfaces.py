"""Every built-in surface, for tests that walk all endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import NamedTuple

from starlette.applications import Starlette

from coatcheck.blobs.open import blobs_for
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.surfaces.base import Surface
from coatcheck.mcp.surface import McpSurface
from coatcheck.settings import Settings
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.surfaces.foreman.surface import ForemanSurface
from coatcheck.surfaces.graphs.surface import GraphSurface
from coatcheck.surfaces.ingest.surface import IngestSurface
from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from coatcheck.surfaces.render.surface import RenderSurface
from coatcheck.surfaces.tasks.surface import TaskSurface
from tests.http.kinds import Gate, declare_kinds
from tests.store.template import migrated

NOWHERE = "http://127.0.0.1:9"  # nothing listens there


def every_surface(upstream: str = NOWHERE) -> list[Surface]:
    """Create one surface of each kind. Those that call another service call `upstream`."""
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


class Served(NamedTuple):
    """An application with every surface, and no worker."""

    engine: Engine
    app: Starlette
    surfaces: list[Surface]


@contextlib.asynccontextmanager
async def every_surface_served(folder: Path, *more: Surface) -> AsyncIterator[Served]:
    """Serve every surface beside the kinds of the HTTP tests, from a database in a folder."""
    settings = Settings(database=f"sqlite:///{folder}/jobs.db")
    surfaces = [*every_surface(), *more]
    gate = Gate()
    declared = declare_kinds(gate)
    for surface in surfaces:
        declared.use(surface)
        surface.configure(settings)
    store, blobs = SQLiteStore(migrated(folder / "jobs.db")), blobs_for(settings)
    await store.open()
    engine = Engine(store, declared.kinds, blobs=blobs, pepper=lambda: b"p" * 32)
    try:
        yield Served(engine, create_http_app(engine, surfaces=surfaces), surfaces)
    finally:
        gate.open()
        for surface in surfaces:
            await surface.close()
        await store.close()
        blobs.close()
