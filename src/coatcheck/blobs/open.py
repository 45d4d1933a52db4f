"""Opening the blob store that the settings name."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from coatcheck.blobs.base import Bucket
from coatcheck.blobs.blobs import Blobs
from coatcheck.blobs.encrypted import EncryptedBucket
from coatcheck.blobs.files import FileBucket
from coatcheck.blobs.objects import ObjectBucket
from coatcheck.crypto.encryption import keyring_for
from coatcheck.crypto.secret_refs import resolve
from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings

_OBJECTS = ("s3", "az", "gs")
_HINT = "write file:///var/lib/blobs, s3://bucket/folder, az://container or gs://bucket"
# Used if there is no database file to put them beside.
DEFAULT_FOLDER = Path("data/blobs")


def blobs_for(settings: Settings) -> Blobs:
    """Return the blob store that the settings name, without accessing it."""
    return Blobs(bucket_for(settings))


def bucket_for(settings: Settings) -> Bucket:
    """Return the bucket that the settings name; by default, a folder beside the database file."""
    bucket = _plain_bucket(settings)
    keys = keyring_for(settings)
    return bucket if keys is None else EncryptedBucket(bucket, keys)


def _plain_bucket(settings: Settings) -> Bucket:
    url = settings.blobs
    if not url:
        return FileBucket(_beside(resolve(settings.database)))
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "file" and rest.startswith("/") and len(rest) > 1:
        return FileBucket(Path(unquote(rest)))
    if separator and scheme in _OBJECTS and urlsplit(url).hostname:
        return ObjectBucket(url)
    shown = f"{scheme}://…" if separator and scheme.isalnum() else "this"
    raise ConfigurationError(f"{shown} is not a blob store; {_HINT}")


def _beside(database: str) -> Path:
    scheme, _, rest = database.partition("://")
    return Path(rest[1:]).parent / "blobs" if scheme == "sqlite" else DEFAULT_FOLDER
