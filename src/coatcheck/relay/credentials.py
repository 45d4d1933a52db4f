"""Encryption of a call's secrets, and ownership of its response.

The key is derived from the pepper (crypto/pepper.py), which is not in the database. Somebody who
has only the database can neither use a stored credential nor verify a guess of one. Every process
that stores or makes calls needs the same pepper.

Encrypted text is bound to its job (`Binding`): tenant, rule, owner and job id are its associated
data. A copy in another job cannot be decrypted there. A resumed job keeps its id and continues. A
fork has an id of its own, so `fork_input_for` encrypts the credentials again for it.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from coatcheck.crypto.encryption import PREFIX, Keyring
from coatcheck.crypto.pepper import pepper_for
from coatcheck.errors import BlobDamaged, ConfigurationError, KeyMissing
from coatcheck.model.job import OWNER_LABEL, Job
from coatcheck.model.kind import ForkInput
from coatcheck.relay.call import EncryptedPart, InlineBody, StoredCall, StoredResponse
from coatcheck.relay.headers import (
    CREDENTIALS,
    SECRET_RESPONSE_HEADERS,
    Pairs,
    find_header,
    split_headers,
)
from coatcheck.settings import Settings

# The label that names the owner of a job's response: <header>:<keyed hash of its value>.
OWNER = OWNER_LABEL
_KEY_ID = "relay2"
# Earlier versions bound encrypted text to the rule alone.
_RULE_KEY_ID = "relay"
# What decryption raises if the pepper has changed.
DECRYPTION_ERRORS = (KeyMissing, BlobDamaged)


class Binding(NamedTuple):
    """The associated data of encrypted text: it cannot be decrypted with any other."""

    tenant: str
    rule: str  # the kind of the job
    job_id: str
    owner: str | None = None

    def __str__(self) -> str:
        return json.dumps(self)


class CallEncryption:
    """Encrypts and decrypts the secrets of calls. `pepper` is called when it is first needed."""

    def __init__(self, pepper: Callable[[], bytes] | None = None) -> None:
        self._pepper = pepper or _not_configured

    def configure(self, settings: Settings) -> None:
        """Use the pepper of a server with these settings, and create it if it is missing; raises
        ConfigurationError if there can be none.
        """
        self._pepper = pepper_for(settings).read_or_make
        self._keyring.encrypt("", "")  # fails now rather than at the first call

    @cached_property
    def _keyring(self) -> Keyring:
        keys = {_KEY_ID: b"relay jobs", _RULE_KEY_ID: b"relay credentials"}
        return Keyring({key_id: self._derive(purpose) for key_id, purpose in keys.items()})

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self._pepper(), b"coatcheck " + purpose, "sha256")

    @cached_property
    def _owner_key(self) -> bytes:
        return self._derive(b"relay owners")

    # --- credentials of a call

    def encrypt_headers(self, pairs: Pairs, binding: Binding) -> str | None:
        """Encrypt headers for one job; None if there are none."""
        return self._encrypt(json.dumps(pairs), binding) if pairs else None

    def decrypt_headers(
        self, encrypted: str | None, binding: Binding, *, by_rule: bool = False
    ) -> Pairs:
        """Decrypt headers; raises KeyMissing, BlobDamaged. With `by_rule`, accept headers that an
        earlier version bound to the rule alone; only for inputs that no client can have written.
        """
        if encrypted is None:
            return []
        text = self._decrypt(encrypted, binding, by_rule=by_rule)
        return [(name, value) for name, value in json.loads(text)]

    def _encrypt(self, text: str, binding: Binding) -> str:
        # Without the prefix, `rekey` does not mistake it for text of the store's own keyring.
        return self._keyring.encrypt(text, str(binding)).removeprefix(PREFIX)

    def _decrypt(self, encrypted: str, binding: Binding, *, by_rule: bool) -> str:
        if encrypted.startswith(f"{_KEY_ID}:"):
            return self._keyring.decrypt(PREFIX + encrypted, str(binding))
        if by_rule and encrypted.startswith(f"{_RULE_KEY_ID}:"):
            return self._keyring.decrypt(PREFIX + encrypted, binding.rule)
        raise BlobDamaged("the encrypted text of a call is not the one that was written")

    # --- owners

    def mark_owner(self, pairs: Pairs, names: Iterable[str] = CREDENTIALS) -> str | None:
        """Return the mark of a call's owner; None if the caller sent no credential."""
        for name in names:
            value = find_header(pairs, name)
            if value is not None:
                return f"{name}:{self._hash(name, value)}"
        return None

    def is_owner(self, owner: str | None, pairs: Pairs) -> bool:
        """Return whether a request has the credential that a mark was made of."""
        if owner is None:
            return True
        name, _, expected = owner.partition(":")
        value = find_header(pairs, name)
        return value is not None and hmac.compare_digest(self._hash(name, value), expected)

    def _hash(self, name: str, value: str) -> str:
        content = f"{name}\0{value}".encode("latin-1", "replace")
        return hmac.digest(self._owner_key, content, "sha256").hex()

    # --- responses

    def encrypt_response(
        self, response: StoredResponse, binding: Binding, *, owned: bool
    ) -> StoredResponse:
        """Encrypt a response: everything but its status if it has an owner, otherwise its secret
        headers.
        """
        clear: Pairs
        clear, secret = ([], list(response.headers)) if owned else _split_response(response)
        body = response.body if owned else None
        if not secret and body is None:
            return response
        part = EncryptedPart(headers=secret, body=body).model_dump_json()
        update: dict[str, Any] = {"headers": clear, "sealed": self._encrypt(part, binding)}
        if owned:
            update["body"] = None
        return response.model_copy(update=update)

    def decrypt_response(self, response: StoredResponse, binding: Binding) -> StoredResponse:
        """Decrypt a response; raises KeyMissing, BlobDamaged. Only a worker writes responses, so
        those that an earlier version bound to the rule are accepted.
        """
        if response.sealed is None:
            return response
        text = self._decrypt(response.sealed, binding, by_rule=True)
        part = EncryptedPart.model_validate_json(text)
        body: InlineBody | None = response.body if response.body is not None else part.body
        headers = [*response.headers, *part.headers]
        return response.model_copy(update={"headers": headers, "body": body, "sealed": None})


def fork_input_for(
    call_type: type[StoredCall], encryption: Callable[[], CallEncryption], surface: str
) -> ForkInput:
    """Return the `fork_input` of a kind whose jobs are relayed calls of a surface.

    Only the owner of a job can fork it (http/auth/readers.py). If the fork repeats the call of its
    source, the credentials are decrypted and encrypted again for the fork. If the owner wrote
    another input, the call is made without credentials. In both cases the response is for the same
    owner, and no caller waits for it.
    """

    def fork_input(text: str, source: Job, fork_id: str, by_client: bool) -> str:
        call = call_type.model_validate_json(text)
        owner = source.labels.get(OWNER)
        credentials = None
        if call.credentials is not None and not by_client:
            binding = Binding(source.tenant, source.kind, source.id, call.owner)
            by_rule = source.surface == surface
            pairs = encryption().decrypt_headers(call.credentials, binding, by_rule=by_rule)
            for_fork = binding._replace(job_id=fork_id, owner=owner)
            credentials = encryption().encrypt_headers(pairs, for_fork)
        internal = {"credentials": credentials, "owner": owner, "owned": False, "line": None}
        return call.model_copy(update=internal).model_dump_json()

    return fork_input


def _not_configured() -> bytes:
    raise ConfigurationError("the surface is not configured: call configure(settings) first")


def _split_response(response: StoredResponse) -> tuple[Pairs, Pairs]:
    return split_headers(list(response.headers), SECRET_RESPONSE_HEADERS)
