"""The pepper: the secret that keys are kept under, apart from the database that keeps them.

Whoever has the database alone can neither use a key nor tell whether a guess is one, nor read the
secret of a webhook. It is what the setting says, itself or by reference. Without one, SQLite has it
in a file beside the database that only its owner can read; that file is made with the first key or
secret, and belongs into a backup: without it no key is any good. Whoever can read the whole folder
has both; a setting that names another place keeps them apart. With PostgreSQL there is no such
place that all servers share: it has to be set.

Several processes may want to make the file at once. It is written under another name and linked to
its own: who finds it finds it whole, and whoever comes second reads what the first has made.
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
    """Where the pepper is."""

    setting: str
    file: Path | None

    def read(self) -> bytes | None:
        """Return the pepper; None where there is none yet."""
        if self.setting:
            return _long_enough(resolve(self.setting))
        if self.file is not None and self.file.exists():
            return _long_enough(self.file.read_text(encoding="ascii").strip())
        return None

    def read_or_make(self) -> bytes:
        """Return the pepper, and make it where it can be kept; raises ConfigurationError."""
        there = self.read()
        if there is not None:
            return there
        if self.file is None:
            raise ConfigurationError(
                "keys and webhooks need a pepper, a secret that all servers have and the database "
                "has not: put one into a file (openssl rand -hex 32) and set "
                "COATCHECK_PEPPER=file:/path/to/it"
            )
        try:
            write_once(self.file, secrets.token_hex(32) + "\n")
        except OSError as error:
            raise ConfigurationError(f"cannot write {self.file}: {error.strerror}") from error
        return self.read_or_make()


def write_once(path: Path, text: str) -> None:
    """Write a file that only its owner can read, unless it is there."""
    make_private_directory(path.parent)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):  # somebody else was faster
            os.link(draft, path)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def pepper_for(settings: Settings) -> Pepper:
    """Return where the settings say the pepper is."""
    if settings.pepper and settings.is_production and not resolver_for(settings.pepper):
        raise ConfigurationError(
            "the production profile takes no pepper in clear: name a file, file:/run/secrets/pepper"
        )
    scheme, _, rest = resolve(settings.database).partition("://")
    file = Path(f"{rest[1:]}.pepper") if scheme == "sqlite" and not settings.pepper else None
    return Pepper(settings.pepper, file)


def _long_enough(pepper: str) -> bytes:
    if len(pepper) < SHORTEST:
        raise ConfigurationError(f"the pepper has fewer than {SHORTEST} characters")
    return pepper.encode()
