"""The whole API in this process: the canonical calls, every surface there is, MCP, the cockpit."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx2
from pydantic import JsonValue

from coatcheck import App, Context
from coatcheck.cli.running import open_engine, surfaces_of
from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.http.endpoint import Endpoint
from coatcheck.http.routes import ENDPOINTS
from coatcheck.mcp.surface import McpSurface
from coatcheck.settings import Settings
from coatcheck.surfaces.configured import configured_surfaces
from coatcheck.surfaces.installed import app_of_surfaces
from coatcheck.ui.pages import Cockpit
from tests.http.arrange import connect

# Nothing listens there: what is handed on fails, and quickly.
_CONFIG = """
[[proxy]]
match = "POST /reports/*"
target = "http://127.0.0.1:9"

[foreman]
ollama_url = "http://127.0.0.1:9"
"""


class WholeApi(NamedTuple):
    """An API with everything it can have."""

    engine: Engine
    http: httpx2.AsyncClient
    endpoints: list[Endpoint]

    async def key_for(self, tenant: str, *scopes: str) -> dict[str, str]:
        """Return the headers of a new key."""
        _, key = await self.engine.doorkeeper.create_key(tenant, scopes or ["admin"])
        return {"Authorization": f"Bearer {key}"}


def settings_for(folder: Path, **settings: object) -> Settings:
    """Return settings for a store in a folder, with a rule of the proxy and foreman."""
    config = folder / "surfaces.toml"
    config.write_text(_CONFIG)
    values = {
        "config": str(config),
        "database": f"sqlite:///{folder}/data/jobs.db",
        "pepper": "a pepper for tests",
        **settings,
    }
    return Settings(**values)  # type: ignore[arg-type]


def app_for(settings: Settings) -> App:
    """Return an app with every surface, and a kind that needs none."""
    app = app_of_surfaces(configured_surfaces(settings))
    app.use(McpSurface())

    @app.job
    async def echo(ctx: Context, value: JsonValue = None) -> JsonValue:
        return value

    return app


@contextlib.asynccontextmanager
async def whole_api(folder: Path, **settings: object) -> AsyncIterator[WholeApi]:
    """Serve all of it, without a worker, to a client in this process."""
    chosen = settings_for(folder, **settings)
    app = app_for(chosen)
    cockpit = list(Cockpit().endpoints)
    async with open_engine(app, chosen) as engine:
        served = create_http_app(engine, surfaces=surfaces_of(app), cockpit=cockpit)
        endpoints = [*ENDPOINTS, *cockpit]
        endpoints += [each for surface in surfaces_of(app) for each in surface.endpoints]
        async with connect(served, raise_app_exceptions=False) as http:
            yield WholeApi(engine, http, endpoints)
