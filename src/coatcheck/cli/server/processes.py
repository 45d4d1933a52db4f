"""Load an app and run its API, its worker or both in this process."""

from __future__ import annotations

import socket
import sys
import traceback
from collections.abc import Callable
from functools import partial

import click

from coatcheck.app import App, load_app
from coatcheck.cli.server.listen import url_of
from coatcheck.cli.server.runtime import api_process, run_process, single_process, worker_process
from coatcheck.errors import CoatcheckError, ConfigurationError
from coatcheck.mcp.surface import McpSurface
from coatcheck.settings import Settings
from coatcheck.store.open import place_of
from coatcheck.surfaces.configured import configured_surfaces
from coatcheck.surfaces.installed import app_of_surfaces
from coatcheck.ui.pages import PATH as COCKPIT


def serve_here(
    app: str | None,
    settings: Settings,
    listening: socket.socket,
    *,
    with_worker: bool,
    has_worker: bool,
) -> None:
    """Serve HTTP, with a worker if requested, until a signal."""
    alone = partial(api_process, has_worker=has_worker)
    process = single_process if with_worker else alone
    announce = _announcement(listening, settings)
    loaded = _load(app, settings)
    loaded.use(McpSurface())
    run_process(process(loaded, settings, listening, announce))


def work_here(app: str | None, settings: Settings) -> None:
    """Run a worker until a signal."""
    run_process(worker_process(_load(app, settings), settings))


def _load(reference: str | None, settings: Settings) -> App:
    configured = configured_surfaces(settings)
    if reference is None:
        return app_of_surfaces(configured)
    app = _import(reference)
    for surface in configured:
        app.use(surface)
    return app


def _import(reference: str) -> App:
    try:
        return load_app(reference)
    except CoatcheckError:
        raise
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise ConfigurationError(f"{reference} could not be imported (see above)") from error


def _announcement(listening: socket.socket, settings: Settings) -> Callable[[bool], None]:
    def announce(needs_key: bool) -> None:
        note = "" if needs_key else " (loopback only: there are no API keys)"
        click.echo(f"Coatcheck listens on {url_of(listening)}{note}")
        click.echo(f"Jobs are stored in {place_of(settings)}")
        click.echo(f"The cockpit is at {url_of(listening)}{COCKPIT}")
        sys.stdout.flush()

    return announce
