"""`coatcheck backup`: an online copy of the SQLite database."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from coatcheck.cli.options import SETTING_OPTIONS, options
from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError
from coatcheck.logs import configure_logging
from coatcheck.settings import load_settings
from coatcheck.store.sqlite.database.backup import back_up
from coatcheck.surfaces.ingest.index.open import search_file


@click.command()
@click.argument("destination", metavar="DEST", type=click.Path(path_type=Path))
@options(*SETTING_OPTIONS)
def backup(destination: Path, **flags: Any) -> None:
    """Copy the SQLite database to DEST while servers and workers keep running.

    The copy is a consistent snapshot. A server started on it runs every job that was not finished
    at that moment. If documents were ingested, their search index is copied too, a moment later.
    DEST must not exist. For PostgreSQL use pg_dump.

    \b
    Examples:
        coatcheck backup /backups/jobs-2030-01-31.db --database sqlite:////var/lib/shop/jobs.db
    """
    settings = load_settings(flags)
    configure_logging(settings)
    scheme, _, path = resolve(settings.database).partition("://")
    if scheme != "sqlite":
        raise ConfigurationError(
            f"this command copies SQLite only; pg_dump --schema={settings.schema} takes a "
            "consistent copy of a running PostgreSQL server (docs/how-to/backup.md)"
        )
    jobs = Path(path[1:])
    index, index_copy = search_file(jobs), search_file(destination)
    has_index = index.is_file()
    if has_index and index_copy.exists():
        raise ConfigurationError(f"{index_copy} exists; a backup never overwrites a file")
    size = _copy("copying jobs", jobs, destination)
    click.echo(f"{destination} contains every job ({size:,} bytes)")
    if has_index:
        size = _copy("copying the search index", index, index_copy)
        click.echo(f"{index_copy} contains the search index ({size:,} bytes)")


def _copy(what: str, source: Path, destination: Path) -> int:
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task(what, total=None)

        def progress(copied: int, pages: int) -> None:
            shown.update(task, completed=copied, total=pages)

        return back_up(source, destination, progress)
