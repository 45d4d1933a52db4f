"""Encryption at rest.

A `Keyring` is written as `<id>=<key>,<id>=<key>`, each key 32 bytes in base64. The first key
encrypts; all of them decrypt. To rotate, put a new key before the old one, and drop the old one
when nothing encrypted with it is left.

- A *text* becomes an *envelope*, `sealed:v1:<key id>:<base64 of nonce and ciphertext>`: AES-256-GCM
  with a random nonce, bound to its tenant. No JSON text begins like that, so texts that were
  written before there was a key are read as they are. An envelope is recognized by its position,
  never by a search: a whole column, or a named member of one (a message, the detail of an error).
  Those members hold free text, so a store without keys never writes one that begins like an
  envelope (`escape_envelope`).
- If two encrypted texts must be equal whenever their contents are (an event that is sent once under
  its key), the nonce is an HMAC of the content.
- A *stream* is a header (a magic number, the key's id, a random salt) and pieces of 1 MiB. Each
  piece is encrypted with a key that is derived from the salt, under its number, and bound to the
  blob's name. So any part can be read separately, and pieces can be neither swapped nor moved to
  another blob.

Secrets that must not be stored in clear even without configured keys (`store/encrypted/secrets.py`)
are encrypted with a key derived from the pepper. Its id is derived from the pepper, too, so that a
wrong pepper is distinguished from a damaged text.
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
PEPPER_PREFIX = "pepper-"  # the prefix of the ids of keys that are derived from the pepper
HEADER = len(MAGIC) + LONGEST_ID + 16

_ID = re.compile(r"[A-Za-z0-9_-]{1,16}")
_ENVELOPE = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{1,16}}:[A-Za-z0-9+/]{{38,}}=*")


class Keyring:
    """The keys by id. The first one encrypts."""

    def __init__(self, keys: dict[str, bytes]) -> None:
        # Imported late: it takes longer to load than all of Coatcheck.
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

        self._cipher: Any = AESGCM
        self._invalid: type[Exception] = InvalidTag
        self._keys = keys
        self._ciphers = {name: AESGCM(key) for name, key in keys.items()}
        self.first = next(iter(keys))

    @classmethod
    def from_pepper(cls, pepper: bytes) -> Keyring:
        """Return a keyring with the one key that is derived from a pepper."""
        name = PEPPER_PREFIX + hmac.digest(pepper, b"coatcheck pepper's name", "sha256").hex()[:8]
        return cls({name: hmac.digest(pepper, b"coatcheck secrets", "sha256")})

    @classmethod
    def read(cls, text: str) -> Keyring:
        """Parse a keyring; raise ConfigurationError, which never contains a key."""
        keys: dict[str, bytes] = {}
        for number, part in enumerate(re.split(r"[,\s]+", text.strip()), 1):
            name, _, encoded = part.partition("=")
            try:
                key = base64.b64decode(encoded, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            taken = name in keys or name.startswith(PEPPER_PREFIX)
            if not _ID.fullmatch(name) or len(key) != 32 or taken:
                raise ConfigurationError(
                    f"encryption key {number} is not <id>=<32 bytes in base64>, with an id of 1 to "
                    "16 letters, digits, _ and - that is unique; `openssl rand -base64 32` "
                    "generates a key"
                )
            keys[name] = key
        return cls(keys)

    # --- texts

    def encrypt(self, text: str, tenant: str) -> str:
        """Encrypt a text."""
        return self._encrypt(text, tenant, os.urandom(NONCE))

    def encrypt_deterministic(self, text: str, tenant: str, about: str) -> str:
        """Encrypt a text so that the same text about the same thing gives the same envelope."""
        message = f"{tenant}\0{about}\0{text}".encode()
        key = self._derived(self.first, b"alike")
        return self._encrypt(text, tenant, hmac.digest(key, message, "sha256")[:NONCE])

    def _encrypt(self, text: str, tenant: str, nonce: bytes) -> str:
        ciphertext = self._ciphers[self.first].encrypt(nonce, text.encode(), tenant.encode())
        return f"{PREFIX}{self.first}:{base64.b64encode(nonce + ciphertext).decode()}"

    def decrypt(self, text: str, tenant: str) -> str:
        """Decrypt an envelope; return any other text as it is. Raise KeyMissing or BlobDamaged."""
        if not text.startswith(PREFIX):
            return text
        name, _, encoded = text.removeprefix(PREFIX).partition(":")
        cipher = self._ciphers.get(name)
        if cipher is None:
            raise key_missing(name)
        try:
            ciphertext = base64.b64decode(encoded, validate=True)
            return str(
                cipher.decrypt(ciphertext[:NONCE], ciphertext[NONCE:], tenant.encode()).decode()
            )
        except (self._invalid, ValueError) as error:
            raise BlobDamaged("the encrypted text is damaged") from error

    def decrypt_message(self, text: str, tenant: str) -> str:
        """Decrypt a free text that people or handlers wrote.

        Such a text may have been stored in clear and look like an envelope. If it fails
        authentication, it is returned as it is. Raise KeyMissing.
        """
        try:
            return self.decrypt(text, tenant) if is_envelope(text) else text
        except BlobDamaged:
            return text

    def reencrypt(self, text: str, tenant: str, about: str | None = None) -> str:
        """Encrypt an envelope again with the first key; with `about`, as `encrypt_deterministic`
        does.

        Return any other text, and an envelope of the first key, as it is. Raise KeyMissing or
        BlobDamaged.
        """
        if not text.startswith(PREFIX) or text.startswith(f"{PREFIX}{self.first}:"):
            return text
        content = self.decrypt(text, tenant)
        if about is None:
            return self.encrypt(content, tenant)
        return self.encrypt_deterministic(content, tenant, about)

    # --- streams

    def is_outdated(self, header: bytes) -> bool:
        """Return whether a stream was encrypted with another key than the first."""
        return _key_of(header) != self.first

    def encrypt_stream(self, name: str, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """Encrypt a stream of pieces."""
        header, encrypt = self.stream_encryptor(name)
        yield header
        for piece in in_pieces(pieces, PIECE):
            yield encrypt(piece)

    def stream_encryptor(self, name: str) -> tuple[bytes, Callable[[bytes], bytes]]:
        """Return the header of an encrypted stream, and a function that encrypts its pieces in
        order. All pieces but the last have `PIECE` bytes.
        """
        salt = os.urandom(16)
        cipher = self._cipher(self._derived(self.first, salt))
        numbers = itertools.count()

        def encrypt(piece: bytes) -> bytes:
            ciphertext: bytes = cipher.encrypt(
                next(numbers).to_bytes(NONCE, "big"), piece, name.encode()
            )
            return ciphertext

        return MAGIC + self.first.encode().ljust(LONGEST_ID, b"\0") + salt, encrypt

    def decrypt_stream(
        self, name: str, header: bytes, pieces: Iterable[bytes], first: int
    ) -> Iterator[bytes]:
        """Decrypt pieces of a stream, starting with the piece of number `first`."""
        key_id = _key_of(header)
        if key_id not in self._keys:
            raise key_missing(key_id)
        cipher = self._cipher(self._derived(key_id, header[-16:]))
        for number, piece in enumerate(in_pieces(pieces, PIECE + TAG), first):
            try:
                yield cipher.decrypt(number.to_bytes(NONCE, "big"), piece, name.encode())
            except self._invalid as error:
                raise BlobDamaged(f"blob {name} is damaged") from error

    def _derived(self, key_id: str, salt: bytes) -> bytes:
        # HKDF-SHA256 (RFC 5869), one block.
        extracted = hmac.digest(salt, self._keys[key_id], "sha256")
        return hmac.digest(extracted, b"coatcheck\x01", hashlib.sha256)


def is_envelope(text: str) -> bool:
    """Return whether a text has the form of an envelope."""
    return _ENVELOPE.fullmatch(text) is not None


def escape_envelope(text: str) -> str:
    """Return a text that is stored in clear so that it cannot be taken for an envelope later."""
    return f" {text}" if text.startswith(PREFIX) else text


def keyring_for(settings: Settings) -> Keyring | None:
    """Return the keys that the settings name; None if there are none."""
    given = settings.encryption_keys
    if not given:
        return None
    if settings.is_production and resolver_for(given) is None:
        raise ConfigurationError(
            "the production profile accepts no encryption keys in clear: put them in a file that "
            "only this process can read, and set a reference: file:/run/secrets/keys"
        )
    return Keyring.read(resolve(given))


def in_pieces(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """Split a stream of bytes into pieces of one size; the last may be shorter."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= size:
            yield bytes(buffer[:size])
            del buffer[:size]
    if buffer:
        yield bytes(buffer)


def _key_of(header: bytes) -> str:
    return header[len(MAGIC) : len(MAGIC) + LONGEST_ID].rstrip(b"\0").decode("ascii", "replace")


def key_missing(key_id: str) -> KeyMissing:
    """Return the error for a key that is not configured here."""
    if key_id.startswith(PEPPER_PREFIX):
        return KeyMissing("this was encrypted under another pepper than the configured one")
    shown = key_id if _ID.fullmatch(key_id) else "?"
    return KeyMissing(f"this was encrypted with key {shown!r}, which is not configured here")
