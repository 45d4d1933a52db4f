"""`coatcheck backup`: a copy of the jobs, taken while everything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from rich.console import Console
from rich.progress import Progress

from coatcheck.errors import ConfigurationError
from coatcheck.secrets import resolve
from coatcheck.settings import Settings
from coatcheck.store.sqlite.backup import back_up


def run_backup(settings: Settings, destination: Path) -> None:
    """Copy the database that the settings name."""
    scheme, _, path = resolve(settings.database).partition("://")
    if scheme != "sqlite":
        raise ConfigurationError(
            f"PostgreSQL has its own ways: pg_dump --schema={settings.schema} takes a consistent "
            "copy of a running server (docs/how-to/back-up.md)"
        )
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task("copying", total=None)

        def progress(copied: int, pages: int) -> None:
            shown.update(task, completed=copied, total=pages)

        size = back_up(Path(path[1:]), destination, progress)
    click.echo(f"{destination} holds every job as of now ({size:,} bytes)")
