"""What of a call is secret, and for whom.

The key is derived from the pepper (crypto/pepper.py), which is apart from the database: whoever has
that alone can neither use a credential that was handed on nor tell whether a guess is one. Every
process that takes calls in or makes them needs the same pepper.

What is encrypted is bound to its job (`Binding`): tenant, rule, owner and job id are its associated
data. So an encrypted text that is copied into another job cannot be decrypted there. A resumed job
keeps its id, and goes on; for a fork by its owner the credentials are encrypted anew
(relay/fork.py).
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
from coatcheck.model.job import OWNER_LABEL
from coatcheck.relay.call import EncryptedPart, InlineBody, StoredResponse
from coatcheck.relay.headers import CREDENTIALS, SECRET_ANSWERS, Pairs, split, value_of
from coatcheck.settings import Settings

# The label by which a job says whose its answer is: <header>:<keyed hash of its value>.
OWNER = OWNER_LABEL
_KEY_ID = "relay2"
# Earlier versions bound what they encrypted to the rule alone.
_RULE_KEY_ID = "relay"


class Binding(NamedTuple):
    """What an encrypted text is for. It cannot be decrypted for anything else, so a copy of it in
    another job is of no use.
    """

    tenant: str
    rule: str  # the kind of the job
    job_id: str
    owner: str | None = None

    def __str__(self) -> str:
        return json.dumps(self)


class CallEncryption:
    """Seals and opens what is secret of calls; `pepper` is asked when it is first needed."""

    def __init__(self, pepper: Callable[[], bytes] | None = None) -> None:
        self._pepper = pepper or _not_configured

    def configure(self, settings: Settings) -> None:
        """Take the pepper of a server with these settings, and make it where it is missing; raises
        ConfigurationError where nothing could be kept secret.
        """
        self._pepper = pepper_for(settings).read_or_make
        self._keyring.encrypt("", "")  # which needs the pepper

    @cached_property
    def _keyring(self) -> Keyring:
        keys = {_KEY_ID: b"relay jobs", _RULE_KEY_ID: b"relay credentials"}
        return Keyring({key_id: self._derived(what) for key_id, what in keys.items()})

    def _derived(self, what: bytes) -> bytes:
        return hmac.digest(self._pepper(), b"coatcheck " + what, "sha256")

    @cached_property
    def _owner_key(self) -> bytes:
        return self._derived(b"relay owners")

    # --- credentials of a call

    def encrypt(self, pairs: Pairs, binding: Binding) -> str | None:
        """Encrypt headers for one job; None if there are none."""
        return self._encrypt(json.dumps(pairs), binding) if pairs else None

    def decrypt(self, sealed: str | None, binding: Binding, *, by_rule: bool = False) -> Pairs:
        """Decrypt headers; raises KeyMissing, BlobDamaged. With `by_rule`, also headers that an
        earlier version has bound to the rule alone: for inputs that no client can have written.
        """
        if sealed is None:
            return []
        text = self._decrypt(sealed, binding, by_rule=by_rule)
        return [(name, value) for name, value in json.loads(text)]

    def _encrypt(self, text: str, binding: Binding) -> str:
        # Without its prefix: nobody but us is to take it for something that can be sealed anew.
        return self._keyring.encrypt(text, str(binding)).removeprefix(PREFIX)

    def _decrypt(self, sealed: str, binding: Binding, *, by_rule: bool) -> str:
        if sealed.startswith(f"{_KEY_ID}:"):
            return self._keyring.decrypt(PREFIX + sealed, str(binding))
        if by_rule and sealed.startswith(f"{_RULE_KEY_ID}:"):
            return self._keyring.decrypt(PREFIX + sealed, binding.rule)
        raise BlobDamaged("the encrypted text is damaged")

    # --- owners

    def owner_of(self, pairs: Pairs, names: Iterable[str] = CREDENTIALS) -> str | None:
        """Return the mark of whoever makes a call; None where they came without a credential."""
        for name in names:
            value = value_of(pairs, name)
            if value is not None:
                return f"{name}:{self._mark(name, value)}"
        return None

    def is_owner(self, owner: str | None, pairs: Pairs) -> bool:
        """Tell whether a request comes with the credential that a mark was made of."""
        if owner is None:
            return True
        name, _, mark = owner.partition(":")
        value = value_of(pairs, name)
        return value is not None and hmac.compare_digest(self._mark(name, value), mark)

    def _mark(self, name: str, value: str) -> str:
        said = f"{name}\0{value}".encode("latin-1", "replace")
        return hmac.digest(self._owner_key, said, "sha256").hex()

    # --- answers

    def closed(self, answer: StoredResponse, binding: Binding, *, owned: bool) -> StoredResponse:
        """Return an answer as it is kept: if it is for one caller only, all but its status is
        encrypted, else what is secret in it.
        """
        clear: Pairs
        clear, secret = ([], list(answer.headers)) if owned else _split(answer)
        body = answer.body if owned else None
        if not secret and body is None:
            return answer
        sealed = EncryptedPart(headers=secret, body=body).model_dump_json()
        kept: dict[str, Any] = {"headers": clear, "sealed": self._encrypt(sealed, binding)}
        if owned:
            kept["body"] = None
        return answer.model_copy(update=kept)

    def opened(self, answer: StoredResponse, binding: Binding) -> StoredResponse:
        """Return an answer as it was; raises KeyMissing, BlobDamaged. Only a worker writes answers,
        so one that an earlier version has kept can be read, too.
        """
        if answer.sealed is None:
            return answer
        text = self._decrypt(answer.sealed, binding, by_rule=True)
        found = EncryptedPart.model_validate_json(text)
        body: InlineBody | None = answer.body if answer.body is not None else found.body
        headers = [*answer.headers, *found.headers]
        return answer.model_copy(update={"headers": headers, "body": body, "sealed": None})


def _not_configured() -> bytes:
    raise ConfigurationError("a surface is configured before it is served: configure(settings)")


def _split(answer: StoredResponse) -> tuple[Pairs, Pairs]:
    return split(list(answer.headers), SECRET_ANSWERS)


# What opening may raise where the pepper is another than it was.
Unreadable = (KeyMissing, BlobDamaged)
