"""The pepper: the server's secret in the hash of API keys, separate from the database.

With the database alone, nobody can use a key, check a guess, or read the secret of a webhook. The
pepper is the setting, or the secret that it refers to. Without a setting, SQLite has it in a file
beside the database that only its owner can read. That file is created with the first key or secret,
and belongs in every backup: without it all keys are useless. A reader of the whole folder has both;
a setting that names another location separates them. PostgreSQL has no such location that all
servers share, so there the pepper must be set.

Several processes may try to create the file at once. It is written under another name and linked to
its own: a reader finds it complete, and a process that comes second reads the first one's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from coatcheck.crypto.secret_refs import resolve, resolver_for
from coatcheck.errors import ConfigurationError
from coatcheck.private_files import make_private_directory
from coatcheck.settings import Settings

SHORTEST = 16


@dataclass(frozen=True)
class Pepper:
    """The location of the pepper."""

    setting: str
    file: Path | None

    def read(self) -> bytes | None:
        """Return the pepper; None if there is none yet."""
        if self.setting:
            return _long_enough(resolve(self.setting))
        if self.file is not None and self.file.exists():
            return _long_enough(self.file.read_text(encoding="ascii").strip())
        return None

    def read_or_make(self) -> bytes:
        """Return the pepper, and create it if it can be stored; otherwise raise
        ConfigurationError.
        """
        there = self.read()
        if there is not None:
            return there
        if self.file is None:
            raise ConfigurationError(
                "keys and webhooks need a pepper, a secret that all servers share and that is not "
                "in the database: put one in a file (openssl rand -hex 32) and set "
                "COATCHECK_PEPPER=file:/path/to/it"
            )
        try:
            write_once(self.file, secrets.token_hex(32) + "\n")
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.file}: {error.strerror}") from error
        return self.read_or_make()


def write_once(path: Path, text: str) -> None:
    """Create a file that only its owner can read, unless it exists."""
    make_private_directory(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # another process was faster
            os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pepper_for(settings: Settings) -> Pepper:
    """Return the location of the pepper that the settings name."""
    if settings.pepper and settings.is_production and not resolver_for(settings.pepper):
        raise ConfigurationError(
            "the production profile accepts no pepper in clear: set a reference, such as "
            "file:/run/secrets/pepper"
        )
    scheme, _, rest = resolve(settings.database).partition("://")
    file = Path(f"{rest[1:]}.pepper") if scheme == "sqlite" and not settings.pepper else None
    return Pepper(settings.pepper, file)


def _long_enough(pepper: str) -> bytes:
    if len(pepper) < SHORTEST:
        raise ConfigurationError(f"the pepper has fewer than {SHORTEST} characters")
    return pepper.encode()
