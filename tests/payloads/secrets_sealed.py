"""What holds of webhooks' secrets on any store: never in clear, with keys, a pepper, or by default.

A test class gives `settings` and `rows`, all that the database holds as one text.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from coatcheck.crypto.encryption import PEPPER_PREFIX, PREFIX
from coatcheck.engine.engine import Engine
from coatcheck.engine.webhooks.endpoints import WebhookSpec
from coatcheck.errors import KeyMissing
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.webhook import OWN, WebhookSecret, new_secret
from coatcheck.settings import Settings
from coatcheck.store.open import _plain_store

from .resealed import NEW, OLD, opened, reseal

ASKED = WebhookSpec("https://93.184.216.34/hook")
PEPPER, OTHER = "a pepper of sixteen characters or more", "another pepper of that length"

Rows = Callable[[], str]


@asynccontextmanager
async def in_clear(settings: Settings) -> AsyncIterator[Engine]:
    """Open the store as it was before secrets were sealed."""
    store = _plain_store(settings)
    await store.open()
    try:
        yield Engine(store, {})
    finally:
        await store.close()


class SecretsSealed:
    """The tests."""

    @pytest.mark.parametrize("keys", ["", OLD])
    async def test_no_secret_is_in_the_database(
        self, settings: Settings, rows: Rows, keys: str
    ) -> None:
        async with opened(settings, keys) as engine:
            webhook, secret = await engine.webhooks.create(ASKED)
            rotated, _ = await engine.webhooks.rotate(webhook.id)
            own = await engine.webhooks.secret()
        assert not [each for each in (secret, rotated, own) if each in rows()]
        assert "whsec_" not in rows()
        assert rows().count(f"{PREFIX}a:" if keys else PREFIX + PEPPER_PREFIX) == 3
        async with opened(settings, keys) as engine:  # another process
            assert await engine.webhooks.signing_secrets(webhook.id) == [rotated, secret]
            assert await engine.webhooks.secret() == own

    async def test_what_was_kept_in_clear_is_read_and_sealed_beside_a_new_one(
        self, settings: Settings, rows: Rows
    ) -> None:
        async with in_clear(settings) as engine:
            webhook, secret = await engine.webhooks.create(ASKED)
        assert secret in rows()
        async with opened(settings, "") as engine:
            assert await engine.webhooks.signing_secrets(webhook.id) == [secret]
            rotated, _ = await engine.webhooks.rotate(webhook.id)
            assert await engine.webhooks.signing_secrets(webhook.id) == [rotated, secret]
        assert "whsec_" not in rows()

    @pytest.mark.parametrize("keys", ["", OLD])
    async def test_what_was_kept_in_clear_is_sealed_by_reseal(
        self, settings: Settings, rows: Rows, keys: str
    ) -> None:
        async with in_clear(settings) as engine:
            made = [await engine.webhooks.create(ASKED) for _ in range(3)]
            job_s = await engine.webhooks.secret()
        assert rows().count("whsec_") == 4
        async with opened(settings, keys) as engine:
            done = await reseal(settings, keys, engine)
            again = await reseal(settings, keys, engine)
            assert (done.texts, done.left, again.texts) == (4, 0, 0)
            for webhook, secret in made:
                assert await engine.webhooks.signing_secrets(webhook.id) == [secret]
            assert await engine.webhooks.secret() == job_s
        assert "whsec_" not in rows()

    async def test_what_the_pepper_has_sealed_is_read_and_sealed_with_the_keys(
        self, settings: Settings, rows: Rows
    ) -> None:
        async with opened(settings, "") as engine:
            webhook, secret = await engine.webhooks.create(ASKED)
        async with opened(settings, OLD) as engine:
            assert await engine.webhooks.signing_secrets(webhook.id) == [secret]
            assert (await reseal(settings, OLD, engine)).left == 0
        assert PREFIX + PEPPER_PREFIX not in rows()
        async with opened(replace(settings, pepper=OTHER), f"{NEW},{OLD}") as engine:
            assert await engine.webhooks.signing_secrets(webhook.id) == [secret]

    async def test_under_another_pepper_a_new_secret_is_needed_and_enough(
        self, settings: Settings
    ) -> None:
        async with opened(replace(settings, pepper=PEPPER), "") as engine:
            webhook, _ = await engine.webhooks.create(ASKED)
        other = replace(settings, pepper=OTHER)
        async with opened(other, "") as engine:
            with pytest.raises(KeyMissing, match="another pepper"):
                await engine.webhooks.signing_secrets(webhook.id)
            rotated, _ = await engine.webhooks.rotate(webhook.id)
            assert await engine.webhooks.signing_secrets(webhook.id) == [rotated]
            done = await reseal(other, "", engine)
            assert (done.left, "another pepper" in done.missing) == (1, True)

    async def test_a_secret_of_one_tenant_is_no_secret_of_another(self, settings: Settings) -> None:
        async with opened(settings, "") as engine:
            now = engine.clock.now()
            await engine.store.webhooks.put_secret(
                "acme", OWN, WebhookSecret(new_secret(), now), now
            )
            own = await engine.webhooks.secret("acme")
            assert own != await engine.webhooks.secret(DEFAULT_TENANT)
            assert own == await engine.webhooks.secret("acme")
