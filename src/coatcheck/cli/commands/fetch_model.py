"""`coatcheck fetch-model`: download the embedding model."""

from __future__ import annotations

import click

from coatcheck.surfaces.ingest.embedding.weights import fetch_weights, find_weights


@click.command()
def fetch_model() -> None:
    """Download the model of the offline embedder (90 MB).

    Document ingest embeds passages with all-MiniLM-L6-v2 unless INGEST_EMBEDDER names another
    embedder. The files are verified against the hashes of the published model.

    \b
    Examples:
        coatcheck fetch-model
    """
    if (found := find_weights()) is not None:
        click.echo(f"all-MiniLM-L6-v2 is already in {found}")
        return
    click.echo("downloading all-MiniLM-L6-v2 (90 MB)")
    click.echo(f"all-MiniLM-L6-v2 is in {fetch_weights()}")
