"""Blobs in an object store: S3 and compatible stores, Azure, Google.

It uses obstore's blocking calls, from threads. Its asynchronous calls occasionally aborted the
interpreter at exit while a stream was still queued. A large object is uploaded in parts, a few at a
time, and exists once the last part has arrived. If a part fails, or reading the source fails, the
upload is aborted.

An object cannot be written by several threads in turn. So the bytes of a slow client are spooled to
an unnamed temporary file, and one thread uploads them once the last has arrived.

`Blobs` retries, except for sources that can be read only once. For these, the library resends a
failed part from memory, after server errors (5xx) and connection errors, but not if something does
not exist.

Credentials and endpoints are found as each vendor's own tools find them: in the environment
(AWS_..., AZURE_..., GOOGLE_...), or from the identity of the machine or pod.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from coatcheck.blobs.base import PIECE, BlobRetryPolicy, BlobWriter, SignedAddress
from coatcheck.errors import BlobDamaged, BlobGone, BlobStoreUnavailable, ConfigurationError

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, RetryConfig

# An upload holds this many parts of this size in memory.
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 2
PROBE_KEY = "doctor/probe"
# Headers that a PUT to a signed URL needs: Azure has several types of blobs.
_PUT_HEADERS = {"az": {"x-ms-blob-type": "BlockBlob"}}


class ObjectBucket:
    """A bucket or container, or a folder in it that the URL's path names."""

    def __init__(self, url: str, retry_policy: BlobRetryPolicy = BlobRetryPolicy()) -> None:  # noqa: B008 - a value
        try:
            # An optional dependency.
            import obstore  # noqa: PLC0415
            from obstore.exceptions import (  # noqa: PLC0415
                BaseError,
                PermissionDeniedError,
                UnauthenticatedError,
            )
            from obstore.store import from_url  # noqa: PLC0415
        except ImportError as error:
            raise ConfigurationError(
                "blobs in an object store need a library: pip install 'coatcheck[objects]'"
            ) from error
        parts = urlsplit(url)
        self._location = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        self._obstore: Any = obstore
        self._base_error: type[Exception] = BaseError
        self._denied = (PermissionDeniedError, UnauthenticatedError, PermissionError)
        try:
            self._store: Any = from_url(url, retry_config={"max_retries": 0})
            self._retrying_store: Any = from_url(url, retry_config=_retry_config(retry_policy))
        except BaseError as error:
            raise ConfigurationError(f"{self._location} cannot be used for blobs") from error

    @property
    def location(self) -> str:
        """The URL without anything that could be a secret."""
        return self._location

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object."""
        self._put(self._store, key, pieces)

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, and retry each failed part."""
        self._put(self._retrying_store, key, pieces)

    def writer(self, key: str) -> BlobWriter:
        """Spool pieces as they are sent, and upload the object once all have arrived."""
        try:
            # A temporary file has no name, and nobody else can open it.
            with tempfile.SpooledTemporaryFile(PIECE) as spool:
                while (piece := (yield)) is not None:
                    spool.write(piece)
                spool.seek(0)
                self.put_once(key, iter(lambda: spool.read(PIECE), b""))
        except OSError as error:
            message = f"an upload to {self._location} cannot be spooled: {error.strerror}"
            raise BlobStoreUnavailable(message) from error

    def _put(self, store: Any, key: str, pieces: Iterable[bytes]) -> None:
        with self._translate_errors(key):
            self._obstore.put(
                store, key, pieces, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read from an object."""
        with self._translate_errors(key):
            if start >= stop:
                self._obstore.head(self._store, key)
                return
            found = self._obstore.get(self._store, key, options={"range": (start, stop)})
            for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def delete(self, key: str) -> None:
        """Delete an object."""
        try:
            with self._translate_errors(key):
                self._obstore.delete(self._store, key)
        except BlobGone:
            return  # some stores raise this, some do not

    def size(self, key: str) -> int:
        """Return an object's size."""
        with self._translate_errors(key):
            return int(self._obstore.head(self._store, key)["size"])

    def copy(self, key: str, to: str) -> None:
        """Copy an object within the store."""
        with self._translate_errors(key):
            self._obstore.copy(self._store, key, to)

    def sign(self, key: str, seconds: float) -> SignedAddress:
        """Return a signed URL for a PUT."""
        with self._translate_errors(key):
            lasting = timedelta(seconds=seconds)
            url = str(self._obstore.sign(self._store, "PUT", key, lasting))
            return SignedAddress(url, _PUT_HEADERS.get(self._location.partition(":")[0], {}))

    def check(self) -> None:
        """Write a few bytes, read them and delete them."""
        message = b"coatcheck doctor"
        self.put(PROBE_KEY, [message])
        found = b"".join(self.get(PROBE_KEY, 0, len(message)))
        self.delete(PROBE_KEY)
        if found != message:
            raise BlobDamaged(f"{self._location} does not return the bytes that were written")

    @contextmanager
    def _translate_errors(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise BlobGone(f"blob {key} is not in {self._location}") from error
        except self._denied as error:
            raise BlobStoreUnavailable(f"{self._location} rejected the credentials") from error
        except self._base_error as error:
            # Its message contains the whole request, so only the type of the error is passed on.
            message = f"{self._location} is unavailable: {type(error).__name__}"
            raise BlobStoreUnavailable(message) from error


def _retry_config(retry_policy: BlobRetryPolicy) -> RetryConfig:
    """Convert a retry policy to obstore's. Its pauses are random between one and two times the
    base.
    """
    backoff: BackoffConfig = {
        "init_backoff": timedelta(seconds=retry_policy.first_pause_s),
        "max_backoff": timedelta(seconds=retry_policy.longest_pause_s),
        "base": 2,
    }
    return {"max_retries": retry_policy.tries - 1, "backoff": backoff}
