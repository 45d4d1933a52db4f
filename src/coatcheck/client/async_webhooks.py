"""AsyncWebhookClient: the calls on webhooks. `webhooks.py` is generated from this module."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from coatcheck.client.async_driver import AsyncDriver
from coatcheck.client.calls.webhooks import State, WebhookCalls


class AsyncWebhookClient:
    """The calls on webhooks: `client.webhooks`."""

    def __init__(self, driver: AsyncDriver, calls: WebhookCalls) -> None:
        self._driver = driver
        self._calls = calls

    async def create(
        self, url: str, *, events: Sequence[str] | None = None, description: str = ""
    ) -> dict[str, Any]:
        """Create a webhook that sends the events of all jobs to a URL.

        The default events are the terminal ones: succeeded, failed, cancelled. The `secret` is only
        in this response. The request is not repeated if the response is lost.
        """
        return await self._driver.run(self._calls.create(url, events, description))

    async def change(
        self,
        webhook_id: str,
        url: str,
        *,
        events: Sequence[str] | None = None,
        description: str = "",
    ) -> dict[str, Any]:
        """Replace a webhook's URL, events and description, and enable it."""
        return await self._driver.run(self._calls.change(webhook_id, url, events, description))

    async def list(self) -> builtins.list[dict[str, Any]]:
        """Read the webhooks, oldest first."""
        return await self._driver.run(self._calls.all())

    async def get(self, webhook_id: str) -> dict[str, Any]:
        """Read a webhook."""
        return await self._driver.run(self._calls.get(webhook_id))

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its pending deliveries."""
        await self._driver.run(self._calls.delete(webhook_id))

    async def enable(self, webhook_id: str) -> dict[str, Any]:
        """Enable a webhook."""
        return await self._driver.run(self._calls.set_enabled(webhook_id, True))

    async def disable(self, webhook_id: str) -> dict[str, Any]:
        """Disable a webhook and drop its pending deliveries."""
        return await self._driver.run(self._calls.set_enabled(webhook_id, False))

    async def rotate(self, webhook_id: str | None = None) -> dict[str, Any]:
        """Create a new `secret` for a webhook; without an id, for the webhooks of single jobs.

        Deliveries are signed with the previous secret too, until `previous_until`.
        """
        return await self._driver.run(self._calls.rotate(webhook_id))

    async def secret(self) -> str:
        """Read the secret that signs the webhooks of single jobs."""
        return str((await self._driver.run(self._calls.secret()))["secret"])

    async def deliveries(
        self,
        webhook_id: str | None = None,
        *,
        job_id: str | None = None,
        state: State | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Read the deliveries of a webhook, or of a job, newest first."""
        return await self._driver.run(self._calls.deliveries(webhook_id, job_id, state))

    async def redeliver(self, delivery_id: str) -> dict[str, Any]:
        """Send a delivery again, whatever its state."""
        return await self._driver.run(self._calls.redeliver(delivery_id))

    async def redeliver_failed(self, webhook_id: str) -> int:
        """Send a webhook's failed deliveries again; return how many there are."""
        return await self._driver.run(self._calls.redeliver_failed(webhook_id))
