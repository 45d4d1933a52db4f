"""Files of the server that every confined program can read.

A confined program can read the runtime of the system (`runtime.py`). A database in `/usr/local/var`
would be part of it, whatever the sandbox restricts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import runtime
from coatcheck.settings import Settings

_SECRETS = ("pepper", "encryption_keys", "webhook_secret", "listen")


def reject_exposed_files(settings: Settings, read: Iterable[Path] = ()) -> None:
    """Raise ConfigurationError if confined programs, with access to `read`, can read the server's
    files.
    """
    for problem in exposed_files(settings, read):
        raise ConfigurationError(problem)


def exposed_files(settings: Settings, read: Iterable[Path] = ()) -> Iterator[str]:
    """Yield a sentence for each file of the server that confined programs can read."""
    readable = [Path(name) for name in (*runtime.folders(), *runtime.configuration(network=True))]
    roots = {path.resolve() for path in (*readable, *read)}
    for name, path in _private_files(settings):
        place = path.resolve()
        root = next((root for root in roots if place.is_relative_to(root)), None)
        if root is not None:
            yield (
                f"{name} is in {place.parent}, and programs in the sandbox can read all of {root}: "
                "move it to its own folder, such as /var/lib/coatcheck"
            )


def _private_files(settings: Settings) -> Iterator[tuple[str, Path]]:
    """Yield the files that the settings name. The default pepper is beside the database."""
    if settings.config:
        yield "the config file", Path(settings.config)
    scheme, _, place = settings.database.partition(":///")
    if scheme == "sqlite" and place:
        yield "the database", Path(place)
    if settings.blobs.startswith("file:///"):
        yield "the blob store", Path(settings.blobs.removeprefix("file://"))
    for name in ("database", *_SECRETS):
        value: str = getattr(settings, name)
        if value.startswith("file:") and not value.startswith("file://"):
            yield f"the secret of {name}", Path(value.removeprefix("file:"))
