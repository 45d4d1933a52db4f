"""Webhook secrets, which are never stored in clear, with or without encryption keys.

A secret must be readable to sign with it, so storing a hash, as for an API key, is not enough. With
encryption keys, secrets are encrypted like everything else. Without, they are encrypted under the
pepper (`crypto/pepper.py`), which is not in the database. So a copy of the database, or the right
to read its tables, is not enough to sign; the pepper is needed too. On SQLite the pepper is a file
in the same folder, unless a setting names another place.

The pepper is read, or created if possible, when the first secret is encrypted or decrypted. If it
cannot be created (PostgreSQL, and none is set), no secret is created, and the request is rejected
with an error that says what to do.

Secrets that an earlier release stored in clear can still be read. They are encrypted when their
endpoint gets its next secret, and by `coatcheck reseal`. The command also moves secrets from the
pepper to the encryption keys once there are any.
"""

from __future__ import annotations

from collections.abc import Callable

from coatcheck.crypto.encryption import PEPPER_PREFIX, PREFIX, Keyring, key_missing, keyring_for
from coatcheck.crypto.pepper import Pepper, pepper_for
from coatcheck.errors import ConfigurationError, KeyMissing
from coatcheck.model.audit import AuditEntry
from coatcheck.model.webhook import WebhookEndpoint, WebhookSecret
from coatcheck.settings import Settings
from coatcheck.store.rekey import SECRETS, RekeyStore, TextChange
from coatcheck.store.webhooks import WebhookStore


class SecretKeys:
    """The keys for webhook secrets: the encryption keys, or else the pepper."""

    def __init__(self, keys: Keyring | None, pepper: Callable[[], Pepper]) -> None:
        self._keys = keys
        self._pepper = pepper
        self._pepper_keys: Keyring | None = None

    @property
    def first(self) -> str:
        """The id of the key that encrypts. Raises KeyMissing."""
        return self._current().first

    def encrypt(self, text: str, tenant: str) -> str:
        """Encrypt a secret. Raises KeyMissing if there is no key."""
        return self._current().encrypt(text, tenant)

    def decrypt(self, text: str, tenant: str) -> str:
        """Decrypt a secret; one in clear is returned unchanged. Raises KeyMissing, BlobDamaged."""
        if not text.startswith(PREFIX):
            return text
        key_id = text.removeprefix(PREFIX).partition(":")[0]
        keys = self._from_pepper(make=False) if key_id.startswith(PEPPER_PREFIX) else self._keys
        if keys is None:
            raise key_missing(key_id)
        return keys.decrypt(text, tenant)

    def _current(self) -> Keyring:
        return self._from_pepper(make=True) if self._keys is None else self._keys

    def _from_pepper(self, *, make: bool) -> Keyring:
        if self._pepper_keys is None:
            try:
                pepper = self._pepper().read_or_make() if make else self._pepper().read()
            except ConfigurationError as error:
                raise KeyMissing(str(error)) from error
            if pepper is None:
                raise KeyMissing(
                    "this was encrypted under a pepper that no longer exists; restore it"
                )
            self._pepper_keys = Keyring.from_pepper(pepper)
        return self._pepper_keys


def secret_keys_for(settings: Settings) -> SecretKeys:
    """Return the keys for webhook secrets. The pepper is read later, on first use."""
    return SecretKeys(keyring_for(settings), lambda: pepper_for(settings))


class EncryptedWebhooks:
    """The verbs on webhooks, with secrets encrypted."""

    def __init__(
        self, webhooks: WebhookStore, rekey: RekeyStore, secrets: SecretKeys | Keyring
    ) -> None:
        self._webhooks = webhooks
        self._rekey = rekey
        self._secrets = secrets
        self.get_endpoint = webhooks.get_endpoint
        self.list_endpoints = webhooks.list_endpoints
        self.delete_endpoint = webhooks.delete_endpoint
        self.list_delivery_lanes = webhooks.list_delivery_lanes
        self.claim_deliveries = webhooks.claim_deliveries
        self.record_deliveries = webhooks.record_deliveries
        self.get_delivery = webhooks.get_delivery
        self.list_deliveries = webhooks.list_deliveries
        self.redeliver = webhooks.redeliver

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Create or replace a tenant's endpoint, with its first secret."""
        encrypted = None if secret is None else self._encrypt(secret, endpoint.tenant)
        await self._webhooks.put_endpoint(endpoint, encrypted, audit=audit)

    async def list_secrets(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """List the valid secrets of an endpoint.

        A secret whose key is missing is skipped if another can be decrypted: after the loss of a
        key, a new secret is enough.
        """
        secrets: list[WebhookSecret] = []
        missing: KeyMissing | None = None
        for each in await self._webhooks.list_secrets(tenant, endpoint_id, now):
            try:
                secrets.append(each._replace(value=self._secrets.decrypt(each.value, tenant)))
            except KeyMissing as error:
                missing = error
        if missing is not None and not secrets:
            raise missing
        return secrets

    async def put_secret(
        self,
        tenant: str,
        endpoint_id: str,
        secret: WebhookSecret,
        old_until: int,
        *,
        first: bool = False,
        audit: AuditEntry | None = None,
    ) -> bool:
        """Add a secret, and encrypt older ones that are still in clear."""
        encrypted = self._encrypt(secret, tenant)
        existing = await self._webhooks.list_secrets(tenant, endpoint_id, secret.created_at)
        in_clear = [each.value for each in existing if not each.value.startswith(PREFIX)]
        if in_clear:
            changes = [
                TextChange(
                    (tenant, endpoint_id, value), value, self._secrets.encrypt(value, tenant)
                )
                for value in in_clear
            ]
            await self._rekey.replace_texts(SECRETS, changes)
        return await self._webhooks.put_secret(
            tenant, endpoint_id, encrypted, old_until, first=first, audit=audit
        )

    def _encrypt(self, secret: WebhookSecret, tenant: str) -> WebhookSecret:
        return secret._replace(value=self._secrets.encrypt(secret.value, tenant))
