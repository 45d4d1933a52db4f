"""Blobs in an object store: S3 and what speaks like it, Azure, Google.

Through obstore's blocking calls, from threads. Its asynchronous ones were found to abort the
interpreter at its end, now and then, with a stream still in some queue. A large object goes up in
parts, a few at a time, and exists once the last is there; if one fails, or whoever makes them, the
parts are given up.

An object cannot be written in turns of several threads. So the bytes of a slow client are spooled
in an unnamed temporary file, and sent on by one thread when the last has arrived.

Trying again is our own business (`Blobs`), but for what can be read only once: there the library
sends a part again that failed, from memory, and nobody is asked for it twice. It does so after
errors of the server (5xx) and of the connection, and not where something is not there.

Credentials and endpoints are found as each vendor's own tools find them: in the environment
(AWS_..., AZURE_..., GOOGLE_...), from the machine's or the pod's identity.
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

# What is in memory of an upload: this many parts of this size.
PART_BYTES = 8 << 20
PARTS_AT_ONCE = 2
PROBE_KEY = "doctor/probe"
# What a PUT to a signed address has to say: Azure has blobs of several types.
_PUT_HEADERS = {"az": {"x-ms-blob-type": "BlockBlob"}}


class ObjectBucket:
    """A bucket or container, or a part of one that the URL's path names."""

    def __init__(self, url: str, patience: BlobRetryPolicy = BlobRetryPolicy()) -> None:  # noqa: B008 - a value
        try:
            # An optional part: only who uses it needs it.
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
        self._place = f"{parts.scheme}://{parts.hostname or ''}{parts.path}"
        self._obstore: Any = obstore
        self._base_error: type[Exception] = BaseError
        self._denied = (PermissionDeniedError, UnauthenticatedError, PermissionError)
        try:
            self._store: Any = from_url(url, retry_config={"max_retries": 0})
            self._patient: Any = from_url(url, retry_config=_retrying(patience))
        except BaseError as error:
            raise ConfigurationError(f"{self._place} cannot be used for blobs") from error

    @property
    def place(self) -> str:
        """The URL without anything that could be a secret."""
        return self._place

    def put(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object."""
        self._put(self._store, key, pieces)

    def put_once(self, key: str, pieces: Iterable[bytes]) -> None:
        """Write an object, and each part of it as often as it takes."""
        self._put(self._patient, key, pieces)

    def writer(self, key: str) -> BlobWriter:
        """Spool pieces as they are sent, and write the object when all are there."""
        try:
            # A temporary file has no name, and nobody else can open it.
            with tempfile.SpooledTemporaryFile(PIECE) as spool:
                while (piece := (yield)) is not None:
                    spool.write(piece)
                spool.seek(0)
                self.put_once(key, iter(lambda: spool.read(PIECE), b""))
        except OSError as error:
            said = f"an upload to {self._place} cannot be spooled: {error.strerror}"
            raise BlobStoreUnavailable(said) from error

    def _put(self, store: Any, key: str, pieces: Iterable[bytes]) -> None:
        with self._as_ours(key):
            self._obstore.put(
                store, key, pieces, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def get(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Read from an object."""
        with self._as_ours(key):
            if start >= stop:
                self._obstore.head(self._store, key)
                return
            found = self._obstore.get(self._store, key, options={"range": (start, stop)})
            for piece in found.stream(min_chunk_size=PIECE):
                yield bytes(piece)

    def delete(self, key: str) -> None:
        """Remove an object."""
        try:
            with self._as_ours(key):
                self._obstore.delete(self._store, key)
        except BlobGone:
            return  # some stores say so, some do not

    def size(self, key: str) -> int:
        """Return an object's size."""
        with self._as_ours(key):
            return int(self._obstore.head(self._store, key)["size"])

    def copy(self, key: str, to: str) -> None:
        """Let the store copy an object by itself."""
        with self._as_ours(key):
            self._obstore.copy(self._store, key, to)

    def sign(self, key: str, seconds: float) -> SignedAddress:
        """Return an address to PUT an object to."""
        with self._as_ours(key):
            lasting = timedelta(seconds=seconds)
            url = str(self._obstore.sign(self._store, "PUT", key, lasting))
            return SignedAddress(url, _PUT_HEADERS.get(self._place.partition(":")[0], {}))

    def check(self) -> None:
        """Write a few bytes, read them and remove them."""
        said = b"can this be kept?"
        self.put(PROBE_KEY, [said])
        found = b"".join(self.get(PROBE_KEY, 0, len(said)))
        self.delete(PROBE_KEY)
        if found != said:
            raise BlobDamaged(f"{self._place} does not keep what it is given")

    @contextmanager
    def _as_ours(self, key: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise BlobGone(f"blob {key} is not in {self._place}") from error
        except self._denied as error:
            raise BlobStoreUnavailable(f"{self._place} refuses our credentials") from error
        except self._base_error as error:
            # Its words hold the whole request; the kind of error is all we pass on.
            said = f"{self._place} cannot be used right now: {type(error).__name__}"
            raise BlobStoreUnavailable(said) from error


def _retrying(patience: BlobRetryPolicy) -> RetryConfig:
    """Put it as obstore does; its pauses after the first are drawn at random up to the double."""
    backoff: BackoffConfig = {
        "init_backoff": timedelta(seconds=patience.first_pause_s),
        "max_backoff": timedelta(seconds=patience.longest_pause_s),
        "base": 2,
    }
    return {"max_retries": patience.tries - 1, "backoff": backoff}
