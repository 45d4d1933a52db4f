"""WebhookClient: the calls on webhooks. Generated from async_webhooks.py by `make unasync`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from coatcheck.client.calls.webhooks import State, WebhookCalls
from coatcheck.client.driver import Driver


class WebhookClient:
    """The calls on webhooks: `client.webhooks`."""

    def __init__(self, driver: Driver, calls: WebhookCalls) -> None:
        self._driver = driver
        self._calls = calls

    def create(
        self, url: str, *, events: Sequence[str] | None = None, description: str = ""
    ) -> dict[str, Any]:
        """Create a webhook that sends the events of all jobs to a URL.

        The default events are the terminal ones: succeeded, failed, cancelled. The `secret` is only
        in this response. The request is not repeated if the response is lost.
        """
        return self._driver.run(self._calls.create(url, events, description))

    def change(
        self,
        webhook_id: str,
        url: str,
        *,
        events: Sequence[str] | None = None,
        description: str = "",
    ) -> dict[str, Any]:
        """Replace a webhook's URL, events and description, and enable it."""
        return self._driver.run(self._calls.change(webhook_id, url, events, description))

    def list(self) -> builtins.list[dict[str, Any]]:
        """Read the webhooks, oldest first."""
        return self._driver.run(self._calls.all())

    def get(self, webhook_id: str) -> dict[str, Any]:
        """Read a webhook."""
        return self._driver.run(self._calls.get(webhook_id))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook and its pending deliveries."""
        self._driver.run(self._calls.delete(webhook_id))

    def enable(self, webhook_id: str) -> dict[str, Any]:
        """Enable a webhook."""
        return self._driver.run(self._calls.set_enabled(webhook_id, True))

    def disable(self, webhook_id: str) -> dict[str, Any]:
        """Disable a webhook and drop its pending deliveries."""
        return self._driver.run(self._calls.set_enabled(webhook_id, False))

    def rotate(self, webhook_id: str | None = None) -> dict[str, Any]:
        """Create a new `secret` for a webhook; without an id, for the webhooks of single jobs.

        Deliveries are signed with the previous secret too, until `previous_until`.
        """
        return self._driver.run(self._calls.rotate(webhook_id))

    def secret(self) -> str:
        """Read the secret that signs the webhooks of single jobs."""
        return str((self._driver.run(self._calls.secret()))["secret"])

    def deliveries(
        self,
        webhook_id: str | None = None,
        *,
        job_id: str | None = None,
        state: State | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Read the deliveries of a webhook, or of a job, newest first."""
        return self._driver.run(self._calls.deliveries(webhook_id, job_id, state))

    def redeliver(self, delivery_id: str) -> dict[str, Any]:
        """Send a delivery again, whatever its state."""
        return self._driver.run(self._calls.redeliver(delivery_id))

    def redeliver_failed(self, webhook_id: str) -> int:
        """Send a webhook's failed deliveries again; return how many there are."""
        return self._driver.run(self._calls.redeliver_failed(webhook_id))
