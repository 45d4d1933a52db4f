"""Sealing: what is kept can only be read with a key.

A `Keyring` is written as `<id>=<key>,<id>=<key>`, each key 32 bytes in base64. The first seals;
all of them open, so a new key is put before the old one, and the old one is dropped when nothing
that it sealed is kept any more.

- A *text* becomes `sealed:v1:<key id>:<base64 of nonce and ciphertext>`: AES-256-GCM with a random
  nonce, bound to its tenant. No JSON text begins like that, so what was written before there was a
  key is read as it is. An envelope is recognised by its place, never by a search: the whole of a
  column, or a named member of one (a message, the detail of an error). Those members hold free
  text, so a store without keys never writes one that begins like an envelope (`not_an_envelope`).
- Where two sealed texts must be equal if their contents are (an event that is sent once under its
  key), the nonce is an HMAC of the content.
- A *stream* is a header (what it is, the key's id, a random salt), and pieces of 1 MiB, each sealed
  with a key of its own derived from the salt, under its number and bound to the blob's name. So any
  part can be read by itself, and pieces can be neither exchanged nor moved to another blob.

What must not be in clear even where nobody has configured a key (`store/encrypted/secrets.py`) is
sealed with one that is made from the pepper. Its id is made from the pepper, too, so that another
pepper is told from a damaged text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from coatcheck.crypto.secret_refs import resolve, resolver_for
from coatcheck.errors import BlobDamaged, ConfigurationError, KeyMissing
from coatcheck.settings import Settings

PREFIX = "sealed:v1:"
PIECE = 1 << 20
TAG = 16
NONCE = 12
MAGIC = b"CCSEAL1\0"
LONGEST_ID = 16
OF_PEPPER = "pepper-"  # what the id of a key that is made from the pepper begins with
HEADER = len(MAGIC) + LONGEST_ID + 16

_ID = re.compile(r"[A-Za-z0-9_-]{1,16}")
_ENVELOPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{1,16}}:[A-Za-z0-9+/]{{38,}}=*")


class Keyring:
    """The keys, by id; the first one seals."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        # It takes longer to load than all of ours: only who seals something waits for it.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        self._cipher: Any = AESGCM
        self._invalid: type[Exception] = InvalidTag
        self._keys = keys
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self.first = next(iter(keys))

    @classmethod
    def of_pepper(cls, pepper: bytes) -> Keyring:
        """Return a ring with the one key that a pepper makes."""
        name = OF_PEPPER + hmac.digest(pepper, b"coatcheck pepper's name", "sha256").hex()[:8]
        return cls({name: hmac.digest(pepper, b"coatcheck secrets", "sha256")})

    @classmethod
    def read(cls, text: str) -> Keyring:
        """Read a keyring; raises ConfigurationError, which never holds a key."""
        keys: dict[str, bytes] = {}
        for number, part in enumerate(re.split(r"[,\s]+", text.strip()), 1):
            name, _, encoded = part.partition("=")
            try:
                key = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            taken = name in keys or name.startswith(OF_PEPPER)
            if not _ID.fullmatch(name) or len(key) != 32 or taken:
                raise ConfigurationError(
                    f"encryption key {number} is not <id>=<32 bytes in base64>, with an id of 1 to "
                    "16 letters, digits, _ and - that no other has; `openssl rand -base64 32` "
                    "makes one"
                )
            keys[name] = key
        return cls(keys)

    # --- texts

    def seal(self, text: str, tenant: str) -> str:
        """Seal a text."""
        return self._seal(text, tenant, os.urandom(NONCE))

    def seal_alike(self, text: str, tenant: str, about: str) -> str:
        """Seal a text so that the same one, about the same, is sealed to the same."""
        said = f"{tenant}\0{about}\0{text}".encode()
        key = self._derived(self.first, b"alike")
        return self._seal(text, tenant, hmac.digest(key, said, "sha256")[:NONCE])

    def _seal(self, text: str, tenant: str, nonce: bytes) -> str:
        sealed = self._ciphers[self.first].encrypt(nonce, text.encode(), tenant.encode())
        return f"{PREFIX}{self.first}:{base64.b64encode(nonce + sealed).decode()}"

    def open(self, text: str, tenant: str) -> str:
        """Open a text; one that is not sealed stays as it is. Raises KeyMissing, BlobDamaged."""
        if not text.startswith(PREFIX):
            return text
        name, _, encoded = text.removeprefix(PREFIX).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise key_missing(name)
        try:
            sealed = base64.b64decode(encoded, validate=True)
            return str(cipher.decrypt(sealed[:NONCE], sealed[NONCE:], tenant.encode()).decode())
        except (self._invalid, ValueError) as error:
            raise BlobDamaged("what was sealed is not what was written") from error

    def open_message(self, text: str, tenant: str) -> str:
        """Open a text that people or handlers wrote in their own words. Such a text may have been
        stored without encryption and look like an envelope: one that fails authentication is
        returned as it is. Raises KeyMissing.
        """
        try:
            return self.open(text, tenant) if is_envelope(text) else text
        except BlobDamaged:
            return text

    def reencrypt(self, text: str, tenant: str, about: str | None = None) -> str:
        """Return an envelope made anew with the first key; with `about`, as `seal_alike` does.
        Any other text, and one that the first key sealed, is returned as it is. Raises KeyMissing,
        BlobDamaged.
        """
        if not text.startswith(PREFIX) or text.startswith(f"{PREFIX}{self.first}:"):
            return text
        content = self.open(text, tenant)
        if about is None:
            return self.seal(content, tenant)
        return self.seal_alike(content, tenant, about)

    # --- streams

    def is_outdated(self, header: bytes) -> bool:
        """Tell whether a stream was sealed with another key than the first."""
        return _key_of(header) != self.first

    def seal_stream(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Seal what the pieces come to."""
        header, seal = self.sealer(name)
        yield header
        for piece in in_pieces(pieces, PIECE):
            yield seal(piece)

    def sealer(self, name: str) -> tuple[bytes, Callable[[bytes], bytes]]:
        """Return the header of a sealed stream, and a function that seals its pieces in order. All
        pieces but the last have `PIECE` bytes.
        """
        salt = os.urandom(16)
        cipher = self._cipher(self._derived(self.first, salt))
        numbers = itertools.count()

        def seal(piece: bytes) -> bytes:
            sealed: bytes = cipher.encrypt(
                next(numbers).to_bytes(NONCE, "big"), piece, name.encode()
            )
            return sealed

        return MAGIC + self.first.encode().ljust(LONGEST_ID, b"\0") + salt, seal

    def open_stream(
        self, name: str, header: bytes, pieces: Iterable[bytes], first: int
    ) -> Iterator[bytes]:
        """Open sealed pieces, of which the first has that number."""
        key_id = _key_of(header)
        if key_id not in self._keys:
            raise key_missing(key_id)
        cipher = self._cipher(self._derived(key_id, header[-16:]))
        for number, piece in enumerate(in_pieces(pieces, PIECE + TAG), first):
            try:
                yield cipher.decrypt(number.to_bytes(NONCE, "big"), piece, name.encode())
            except self._invalid as error:
                raise BlobDamaged(f"blob {name} is not what was written") from error

    def _derived(self, key_id: str, salt: bytes) -> bytes:
        # HKDF-SHA256 (RFC 5869), one block.
        extracted = hmac.digest(salt, self._keys[key_id], "sha256")
        return hmac.digest(extracted, b"coatcheck\x01", hashlib.sha256)


def is_envelope(text: str) -> bool:
    """Tell whether a text has the form of an envelope."""
    return _ENVELOPE.fullmatch(text) is not None


def not_an_envelope(text: str) -> str:
    """Return a text to be stored in clear so that it cannot be taken for an envelope later."""
    return f" {text}" if text.startswith(PREFIX) else text


def keyring_for(settings: Settings) -> Keyring | None:
    """Return the keys that the settings name; None where nothing is sealed."""
    given = settings.encryption_keys
    if not given:
        return None
    if settings.is_production and resolver_for(given) is None:
        raise ConfigurationError(
            "the production profile takes no encryption keys in clear: put them where only this "
            "process can read them, and name them: file:/run/secrets/keys"
        )
    return Keyring.read(resolve(given))


def in_pieces(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Cut what comes into pieces of one size; the last may be shorter."""
    gathered = bytearray()
    for piece in pieces:
        gathered += piece
        while len(gathered) >= size:
            yield bytes(gathered[:size])
            del gathered[:size]
    if gathered:
        yield bytes(gathered)


def _key_of(header: bytes) -> str:
    return header[len(MAGIC) : len(MAGIC) + LONGEST_ID].rstrip(b"\0").decode("ascii", "replace")


def key_missing(key_id: str) -> KeyMissing:
    """Return what is raised where a key is not known."""
    if key_id.startswith(OF_PEPPER):
        return KeyMissing("this was sealed under another pepper than the one that is known here")
    shown = key_id if _ID.fullmatch(key_id) else "?"
    return KeyMissing(f"this was sealed with the encryption key {shown!r}, which is not known here")
