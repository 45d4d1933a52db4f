"""The whole API in this process: the canonical calls, every surface there is, MCP, the cockpit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx2
from pydantic import JsonValue

from coatcheck import App, Context
from coatcheck.cli.server.runtime import open_engine, surfaces_of
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

_CONFIG = """
[[proxy]]
match = "POST /reports/*"
target = "{target}"

[foreman]
ollama_url = "{target}"
"""


class WholeApi(NamedTuple):
    """An API with everything it can have."""

    engine: Engine
    http: httpx2.AsyncClient
    endpoints: list[Endpoint]

    async def key_for(self, tenant: str, *scopes: str) -> dict[str, str]:
        """Return the headers of a new key."""
        _, key = await self.engine.authenticator.create_key(tenant, scopes or ["admin"])
        return {"Authorization": f"Bearer {key}"}


class _Upstream(BaseHTTPRequestHandler):
    """A service that has an answer to everything."""

    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        body = (
            b'{"models": [{"name": "x1", "model": "x1"}], "data": [{"id": "x1"}], "version": "1"}'
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - its own names

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def upstream() -> Iterator[str]:
    """Run the service that the proxy and foreman call, and say where it is."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Upstream)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_config(folder: Path, target: str) -> Path:
    """Write a config file with a rule of the proxy, and foreman."""
    config = folder / "surfaces.toml"
    config.write_text(_CONFIG.format(target=target))
    return config


def settings_for(folder: Path, target: str, **settings: object) -> Settings:
    """Return settings for a store in a folder, with a rule of the proxy and foreman."""
    values = {
        "config": str(write_config(folder, target)),
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
    with upstream() as target:
        async with _served(settings_for(folder, target, **settings)) as found:
            yield found


@contextlib.asynccontextmanager
async def _served(chosen: Settings) -> AsyncIterator[WholeApi]:
    app = app_for(chosen)
    cockpit = list(Cockpit().endpoints)
    async with open_engine(app, chosen) as engine:
        served = create_http_app(engine, surfaces=surfaces_of(app), cockpit=cockpit)
        endpoints = [*ENDPOINTS, *cockpit]
        endpoints += [each for surface in surfaces_of(app) for each in surface.endpoints]
        async with connect(served, raise_app_exceptions=False) as http:
            yield WholeApi(engine, http, endpoints)
