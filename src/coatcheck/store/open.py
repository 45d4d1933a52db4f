"""Open the store that the settings name. Only this module imports the implementations."""

from __future__ import annotations

from pathlib import Path

from coatcheck.crypto.encryption import keyring_for
from coatcheck.crypto.secret_refs import resolve, resolver_for
from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings
from coatcheck.store.base import Store
from coatcheck.store.encrypted.secrets import secret_keys_for
from coatcheck.store.encrypted.store import EncryptedStore, PlainStore
from coatcheck.store.sqlite.store import SQLiteStore

_HINT = (
    "write sqlite:///path/to/jobs.db (three slashes: relative, four: absolute) or "
    "postgresql://user@host/database"
)


def store_for(settings: Settings) -> Store:
    """Return the store that the settings name, not yet opened."""
    store, keys = _plain_store(settings), keyring_for(settings)
    secrets = secret_keys_for(settings)
    if keys is None:
        return PlainStore(store, secrets)
    return EncryptedStore(store, keys, secrets)


def _plain_store(settings: Settings) -> Store:
    url = resolve(settings.database)
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SQLiteStore(Path(rest[1:]), poll_s=settings.poll_s)
    if separator and scheme in ("postgresql", "postgres"):
        in_clear = [
            name
            for name, address in (("database", settings.database), ("listen", settings.listen))
            if address and resolver_for(address) is None
        ]
        if settings.is_production and in_clear:
            raise ConfigurationError(
                f"the production profile takes no address in clear ({', '.join(in_clear)}): put it "
                "where only this process can read it, and name it: file:/run/secrets/dsn or "
                "akv:<vault>/<secret>"
            )
        return _postgres(url, settings)
    # Show only the scheme of the URL: any other part may contain a password.
    shown = f"{scheme}://…" if separator and scheme.isalnum() else "this"
    raise ConfigurationError(f"{shown} is not a database this can open; {_HINT}")


def place_of(settings: Settings) -> str:
    """Describe the location of the store for people, without any part that may hold a password."""
    scheme = settings.database.partition("://")[0]
    if scheme in ("postgresql", "postgres"):
        return f"PostgreSQL, schema {settings.schema}"
    return settings.database


def _postgres(url: str, settings: Settings) -> Store:
    try:
        # Optional: only users of PostgreSQL need the driver.
        from coatcheck.store.postgres.store import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "PostgreSQL needs its driver: pip install 'coatcheck[postgres]'"
        ) from error
    return PostgresStore(
        url,
        schema=settings.schema,
        listen_dsn=resolve(settings.listen) if settings.listen else None,
        connections=settings.connections,
        poll_s=settings.poll_s,
    )
