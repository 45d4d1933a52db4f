"""`coatcheck reseal`: encrypt stored data with the first encryption key."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click
from rich.console import Console
from rich.progress import Progress

from coatcheck.blobs.open import blobs_for
from coatcheck.cli import exit_codes
from coatcheck.cli.options import SETTING_OPTIONS, options
from coatcheck.clock import SystemClock
from coatcheck.crypto.encryption import Keyring, keyring_for
from coatcheck.engine.maintenance.rekey import Rekeyer, RekeyProgress
from coatcheck.logs import configure_logging
from coatcheck.settings import Settings, load_settings
from coatcheck.store.encrypted.secrets import SecretKeys, secret_keys_for
from coatcheck.store.open import store_for


@click.command()
@options(*SETTING_OPTIONS)
def reseal(**flags: Any) -> None:
    """Encrypt stored data with the first encryption key, so that older keys can be removed.

    Servers and workers keep running. Restart them with the new key first; otherwise they continue
    to encrypt with the old one. If interrupted, the command continues where it stopped. Data stored
    before there was a key stays unencrypted, except webhook secrets, which are always encrypted:
    with the pepper if there is no encryption key. The exit code is 1 if some data cannot be
    decrypted.

    \b
    Examples:
        COATCHECK_ENCRYPTION_KEYS=file:/run/secrets/keys coatcheck reseal
        coatcheck reseal
    """
    settings = load_settings(flags)
    configure_logging(settings)
    keys = keyring_for(settings)
    secrets = secret_keys_for(settings)
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not sys.stderr.isatty()) as shown:
        task = shown.add_task("encrypting", total=None)

        def progress(so_far: RekeyProgress) -> None:
            words = f"encrypting: {so_far.texts:,} texts, {so_far.blobs:,} files"
            shown.update(task, description=words)

        done = asyncio.run(_run(settings, keys, secrets, progress))
    if keys is None:
        click.echo(
            f"encrypted with the pepper: {done.texts:,} webhook secrets; no encryption keys "
            "(COATCHECK_ENCRYPTION_KEYS) are set"
        )
    else:
        click.echo(
            f"encrypted with key {keys.first}: {done.texts:,} texts and {done.blobs:,} files "
            f"(of {done.looked_at:,})"
        )
    if done.unreadable_messages:
        click.echo(
            f"{done.unreadable_messages:,} messages could not be decrypted and stay as they are; "
            "the log names their jobs. They are damaged, or plain text that looks encrypted"
        )
    if done.left:
        click.echo(f"{done.left:,} could not be decrypted and stay as they are: {done.missing}")
        sys.exit(exit_codes.FAILED)
    click.echo("no data is encrypted with another key")


async def _run(
    settings: Settings, keys: Keyring | None, secrets: SecretKeys, progress: Any
) -> RekeyProgress:
    store, blobs = store_for(settings), blobs_for(settings)
    await store.open()
    try:
        return await Rekeyer(store, blobs, keys, secrets, SystemClock(), progress).run()
    finally:
        await store.close()
        blobs.close()
