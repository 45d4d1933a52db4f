"""Secrets of webhooks, which are never kept in clear, whether or not there are encryption keys.

They have to be read to sign with them, so a hash as of an API key does not do. With encryption keys
they are sealed like everything else. Without, they are sealed under the pepper
(`crypto/pepper.py`), which is not in the database: whoever has a copy of that, or may read its
tables, cannot sign. Whoever has the pepper as well can; with SQLite it is a file in the same folder
unless a setting says otherwise.

The pepper is asked for when the first secret is sealed or opened, and made then where that can be
done. Where it cannot (PostgreSQL, and none is set) no secret is made, and nobody is told that one
was: what needs it is refused with what to do.

All else is kept in clear here. Messages are free text, so one that begins like an envelope is
changed on its way in: a store that is opened with keys later must not take it for one.

What was kept in clear before this was so is still read. It is sealed when its endpoint gets its
next secret, and by `coatcheck reseal`, which also brings what the pepper has sealed under the
encryption keys, once there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from coatcheck.crypto.encryption import (
    PEPPER_PREFIX,
    PREFIX,
    Keyring,
    escape_envelope,
    key_missing,
    keyring_for,
)
from coatcheck.crypto.pepper import Pepper, pepper_for
from coatcheck.errors import ConfigurationError, KeyMissing
from coatcheck.model.audit import AuditEntry
from coatcheck.model.job import Failure, JobInsert, Lease
from coatcheck.model.outcome import Errored, GaveUp, Outcome, Released
from coatcheck.model.step import Step
from coatcheck.model.webhook import WebhookEndpoint, WebhookSecret
from coatcheck.settings import Settings
from coatcheck.store.base import FinishedJob, Report, Settlement, Store
from coatcheck.store.rekey import SECRETS, TextChange


class SecretKeys:
    """What secrets are sealed with: the encryption keys, else the pepper."""

    def __init__(self, keys: Keyring | None, pepper: Callable[[], Pepper]) -> None:
        self._keys = keys
        self._pepper = pepper
        self._of_pepper: Keyring | None = None

    @property
    def first(self) -> str:
        """The id of the key that seals; raises KeyMissing."""
        return self._sealing().first

    def encrypt(self, text: str, tenant: str) -> str:
        """Seal a secret; raises KeyMissing where there is nothing to seal it with."""
        return self._sealing().encrypt(text, tenant)

    def decrypt(self, text: str, tenant: str) -> str:
        """Open a secret; one that is in clear stays as it is. Raises KeyMissing, BlobDamaged."""
        if not text.startswith(PREFIX):
            return text
        key_id = text.removeprefix(PREFIX).partition(":")[0]
        keys = self._peppered(make=False) if key_id.startswith(PEPPER_PREFIX) else self._keys
        if keys is None:
            raise key_missing(key_id)
        return keys.decrypt(text, tenant)

    def _sealing(self) -> Keyring:
        return self._peppered(make=True) if self._keys is None else self._keys

    def _peppered(self, *, make: bool) -> Keyring:
        if self._of_pepper is None:
            try:
                pepper = self._pepper().read_or_make() if make else self._pepper().read()
            except ConfigurationError as error:
                raise KeyMissing(str(error)) from error
            if pepper is None:
                raise KeyMissing("this was sealed under a pepper that is not there any more")
            self._of_pepper = Keyring.from_pepper(pepper)
        return self._of_pepper


def secret_keys_for(settings: Settings) -> SecretKeys:
    """Return what the settings have secrets sealed with; the pepper is not asked for yet."""
    return SecretKeys(keyring_for(settings), lambda: pepper_for(settings))


class EncryptedSecrets:
    """Seals the secrets that go into another store, opens those that come out, and keeps messages
    in clear from looking like envelopes.
    """

    def __init__(self, store: Store, secrets: SecretKeys | Keyring) -> None:
        self._store = store
        self._secrets = secrets

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    async def put_endpoint(
        self,
        endpoint: WebhookEndpoint,
        secret: WebhookSecret | None = None,
        *,
        audit: AuditEntry | None = None,
    ) -> None:
        """Write a tenant's endpoint, with its first secret."""
        sealed = None if secret is None else self._sealed(secret, endpoint.tenant)
        await self._store.put_endpoint(endpoint, sealed, audit=audit)

    async def secrets_of(self, tenant: str, endpoint_id: str, now: int) -> list[WebhookSecret]:
        """Read the secrets that count now. One whose key is missing is left out where another can
        be read: so a new secret is enough when the key of the one before is lost.
        """
        opened: list[WebhookSecret] = []
        missing: KeyMissing | None = None
        for each in await self._store.secrets_of(tenant, endpoint_id, now):
            try:
                opened.append(each._replace(value=self._secrets.decrypt(each.value, tenant)))
            except KeyMissing as error:
                missing = error
        if missing is not None and not opened:
            raise missing
        return opened

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
        """Add a secret; what is in clear beside it is sealed as well."""
        sealed = self._sealed(secret, tenant)
        there = await self._store.secrets_of(tenant, endpoint_id, secret.created_at)
        in_clear = [each.value for each in there if not each.value.startswith(PREFIX)]
        if in_clear:
            changes = [
                TextChange(
                    (tenant, endpoint_id, value), value, self._secrets.encrypt(value, tenant)
                )
                for value in in_clear
            ]
            await self._store.replace_texts(SECRETS, changes)
        return await self._store.put_secret(
            tenant, endpoint_id, sealed, old_until, first=first, audit=audit
        )

    def _sealed(self, secret: WebhookSecret, tenant: str) -> WebhookSecret:
        return secret._replace(value=self._secrets.encrypt(secret.value, tenant))

    # --- messages in clear

    async def submit_finished(
        self, job: JobInsert, ended: FinishedJob, now: int, epoch: int | None = None
    ) -> None:
        """Make a job durable that has ended."""
        report = None if ended.report is None else _clear_report(ended.report)
        outcome = ended.outcome
        if isinstance(outcome, GaveUp):
            outcome = replace(outcome, error=_clear_failure(outcome.error))
        clear = ended._replace(outcome=outcome, report=report)
        await self._store.submit_finished(job, clear, now, epoch)

    async def report(self, lease: Lease, report: Report, now: int) -> bool:
        """Write what a running job says of itself."""
        return await self._store.report(lease, _clear_report(report), now)

    async def settle(self, settlements: Sequence[Settlement], now: int) -> list[bool]:
        """End attempts."""
        clear = [
            Settlement(
                lease, _clear_outcome(outcome), None if report is None else _clear_report(report)
            )
            for lease, outcome, report in settlements
        ]
        return await self._store.settle(clear, now)


def _clear_failure(error: Failure) -> Failure:
    if not error.message.startswith(PREFIX):
        return error
    return replace(error, message=escape_envelope(error.message))


def _clear_outcome(outcome: Outcome) -> Outcome:
    match outcome:
        case GaveUp(error) | Errored(error) | Released(_, error) if error is not None:
            return replace(outcome, error=_clear_failure(error))
    return outcome


def _clear_report(report: Report) -> Report:
    progress = report.progress
    if progress is not None and progress.message is not None:
        progress = replace(progress, message=escape_envelope(progress.message))
    if not report.steps and progress is report.progress:
        return report
    return report._replace(progress=progress, steps=tuple(map(_clear_step, report.steps)))


def _clear_step(step: Step) -> Step:
    return step if step.error is None else replace(step, error=_clear_failure(step.error))
