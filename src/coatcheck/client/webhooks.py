"""Webhooks, as both clients show them."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from coatcheck.client.async_driver import AsyncDriver
from coatcheck.client.driver import Driver
from coatcheck.client.webhook_calls import State, WebhookCalls


class WebhookClient:
    """`client.webhooks`."""

    def __init__(self, driver: Driver, calls: WebhookCalls) -> None:
        self._driver = driver
        self._calls = calls

    def create(
        self, url: str, *, events: Sequence[str] | None = None, description: str = ""
    ) -> dict[str, Any]:
        """Have the events of all jobs told to a URL: their ends, unless `events` names others.

        Its `secret` is in this answer and in no other. Not repeated where the answer is lost.
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
        """Have a webhook lead elsewhere or hear of other events; it is enabled then."""
        return self._driver.run(self._calls.change(webhook_id, url, events, description))

    def list(self) -> builtins.list[dict[str, Any]]:
        """Read the webhooks, the oldest first."""
        return self._driver.run(self._calls.all())

    def get(self, webhook_id: str) -> dict[str, Any]:
        """Read a webhook."""
        return self._driver.run(self._calls.get(webhook_id))

    def delete(self, webhook_id: str) -> None:
        """Delete a webhook; what is pending for it is called off."""
        self._driver.run(self._calls.delete(webhook_id))

    def enable(self, webhook_id: str) -> dict[str, Any]:
        """Let a webhook be called again."""
        return self._driver.run(self._calls.steer(webhook_id, "enable"))

    def disable(self, webhook_id: str) -> dict[str, Any]:
        """Stop calling a webhook; what is pending for it is called off."""
        return self._driver.run(self._calls.steer(webhook_id, "disable"))

    def rotate(self, webhook_id: str | None = None) -> dict[str, Any]:
        """Make a new `secret` for a webhook, or without one for jobs' own; the one before is used
        beside it until `previous_until`.
        """
        return self._driver.run(self._calls.rotate(webhook_id))

    def secret(self) -> str:
        """Read what calls to jobs' own webhooks are signed with."""
        return self._driver.run(self._calls.secret())

    def deliveries(
        self,
        webhook_id: str | None = None,
        *,
        job_id: str | None = None,
        state: State | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Read what a webhook was told, or who was told of a job, newest first."""
        return self._driver.run(self._calls.deliveries(webhook_id, job_id, state))

    def redeliver(self, delivery_id: str) -> dict[str, Any]:
        """Have a delivery sent again, whatever became of it."""
        return self._driver.run(self._calls.redeliver(delivery_id))

    def redeliver_failed(self, webhook_id: str) -> int:
        """Have sent again what a webhook has not taken; return how many deliveries that are."""
        return self._driver.run(self._calls.redeliver_failed(webhook_id))


class AsyncWebhookClient:
    """`client.webhooks` of the asynchronous client."""

    def __init__(self, driver: AsyncDriver, calls: WebhookCalls) -> None:
        self._driver = driver
        self._calls = calls

    async def create(
        self, url: str, *, events: Sequence[str] | None = None, description: str = ""
    ) -> dict[str, Any]:
        """Have the events of all jobs told to a URL: their ends, unless `events` names others.

        Its `secret` is in this answer and in no other. Not repeated where the answer is lost.
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
        """Have a webhook lead elsewhere or hear of other events; it is enabled then."""
        return await self._driver.run(self._calls.change(webhook_id, url, events, description))

    async def list(self) -> builtins.list[dict[str, Any]]:
        """Read the webhooks, the oldest first."""
        return await self._driver.run(self._calls.all())

    async def get(self, webhook_id: str) -> dict[str, Any]:
        """Read a webhook."""
        return await self._driver.run(self._calls.get(webhook_id))

    async def delete(self, webhook_id: str) -> None:
        """Delete a webhook; what is pending for it is called off."""
        await self._driver.run(self._calls.delete(webhook_id))

    async def enable(self, webhook_id: str) -> dict[str, Any]:
        """Let a webhook be called again."""
        return await self._driver.run(self._calls.steer(webhook_id, "enable"))

    async def disable(self, webhook_id: str) -> dict[str, Any]:
        """Stop calling a webhook; what is pending for it is called off."""
        return await self._driver.run(self._calls.steer(webhook_id, "disable"))

    async def rotate(self, webhook_id: str | None = None) -> dict[str, Any]:
        """Make a new `secret` for a webhook, or without one for jobs' own; the one before is used
        beside it until `previous_until`.
        """
        return await self._driver.run(self._calls.rotate(webhook_id))

    async def secret(self) -> str:
        """Read what calls to jobs' own webhooks are signed with."""
        return await self._driver.run(self._calls.secret())

    async def deliveries(
        self,
        webhook_id: str | None = None,
        *,
        job_id: str | None = None,
        state: State | None = None,
    ) -> builtins.list[dict[str, Any]]:
        """Read what a webhook was told, or who was told of a job, newest first."""
        return await self._driver.run(self._calls.deliveries(webhook_id, job_id, state))

    async def redeliver(self, delivery_id: str) -> dict[str, Any]:
        """Have a delivery sent again, whatever became of it."""
        return await self._driver.run(self._calls.redeliver(delivery_id))

    async def redeliver_failed(self, webhook_id: str) -> int:
        """Have sent again what a webhook has not taken; return how many deliveries that are."""
        return await self._driver.run(self._calls.redeliver_failed(webhook_id))
