"""The calls on webhooks.

Requests that create a secret are sent once: a repetition would create a second webhook, or retire
a secret that nobody has seen. All others may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

from coatcheck.client.effects import Effects, send_request
from coatcheck.client.new_job import write_json
from coatcheck.client.responses import read_object
from coatcheck.client.retry import RequestRetryPolicy
from coatcheck.client.wire import JSON_HEADERS, ApiRequest

Webhook = dict[str, Any]
State = Literal["pending", "delivered", "failed"]

_PAGE = "200"
_ROOT = "/v1/webhooks"


class WebhookCalls:
    """The calls on webhooks, as effects that a driver performs."""

    def __init__(self, policy: RequestRetryPolicy) -> None:
        self._policy = policy

    def create(self, url: str, events: Sequence[str] | None, description: str) -> Effects[Webhook]:
        """Create a webhook."""
        content = _write(url, events, description)
        request = ApiRequest("POST", _ROOT, headers=JSON_HEADERS, content=content)
        return self._send_once(request, "id", "secret")

    def change(
        self, webhook_id: str, url: str, events: Sequence[str] | None, description: str
    ) -> Effects[Webhook]:
        """Replace a webhook's URL, events and description."""
        content = _write(url, events, description)
        request = ApiRequest("PUT", _path(webhook_id), headers=JSON_HEADERS, content=content)
        return self._request(request, "id")

    def all(self) -> Effects[list[Webhook]]:
        """Read all webhooks, page by page."""
        return self._pages(_ROOT, "webhooks")

    def get(self, webhook_id: str) -> Effects[Webhook]:
        """Read a webhook."""
        return self._request(ApiRequest("GET", _path(webhook_id)), "id")

    def delete(self, webhook_id: str) -> Effects[Webhook]:
        """Delete a webhook and return it."""
        response, retries = yield from self._policy.send(ApiRequest("DELETE", _path(webhook_id)))
        if retries and response.status == 404:  # deleted by an attempt whose response was lost
            return {"id": webhook_id}
        return read_object(response, "id")

    def set_enabled(self, webhook_id: str, enabled: bool) -> Effects[Webhook]:
        """Enable or disable a webhook."""
        verb = "enable" if enabled else "disable"
        return self._request(ApiRequest("POST", f"{_path(webhook_id)}/{verb}"), "id")

    def rotate(self, webhook_id: str | None) -> Effects[Webhook]:
        """Create a new secret for a webhook, or for the webhooks of single jobs."""
        parent = f"{_ROOT}/secret" if webhook_id is None else _path(webhook_id)
        return self._send_once(ApiRequest("POST", f"{parent}/rotate"), "secret")

    def secret(self) -> Effects[Webhook]:
        """Read the secret for the webhooks of single jobs."""
        return self._request(ApiRequest("GET", f"{_ROOT}/secret"), "secret")

    def deliveries(
        self,
        webhook_id: str | None,
        job_id: str | None,
        state: State | None,
        most: int | None = None,
    ) -> Effects[list[Webhook]]:
        """Read the deliveries of a webhook or a job, page by page."""
        if (webhook_id is None) == (job_id is None):
            raise ValueError("give either a webhook or a job")
        parent = f"/v1/jobs/{quote(job_id, safe='')}" if job_id else _path(webhook_id or "")
        query = () if state is None else (("state", state),)
        return self._pages(f"{parent}/deliveries", "deliveries", query, most)

    def redeliver(self, delivery_id: str) -> Effects[Webhook]:
        """Send a delivery again."""
        path = f"{_ROOT}/deliveries/{quote(delivery_id, safe='')}/redeliver"
        return self._request(ApiRequest("POST", path), "id")

    def redeliver_failed(self, webhook_id: str) -> Effects[int]:
        """Send a webhook's failed deliveries again; return how many there are."""
        request = ApiRequest("POST", f"{_path(webhook_id)}/redeliver")
        found = yield from self._request(request, "deliveries")
        return int(found["deliveries"])

    def _pages(
        self,
        path: str,
        member: str,
        query: tuple[tuple[str, str], ...] = (),
        most: int | None = None,
    ) -> Effects[list[Webhook]]:
        found: list[Webhook] = []
        cursor: str | None = None
        while most is None or len(found) < most:
            more = () if cursor is None else (("cursor", cursor),)
            request = ApiRequest("GET", path, (("limit", _PAGE), *query, *more))
            page = yield from self._request(request, member, "next_cursor")
            found += page[member]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        return found[:most]

    def _request(self, request: ApiRequest, *members: str) -> Effects[Webhook]:
        response, _ = yield from self._policy.send(request)
        return read_object(response, *members)

    def _send_once(self, request: ApiRequest, *members: str) -> Effects[Webhook]:
        outcome = yield from send_request(request, self._policy.timeout_s)
        return read_object(self._policy.last_response(outcome), *members)


def _write(url: str, events: Sequence[str] | None, description: str) -> bytes:
    body: Webhook = {"url": url, "description": description}
    return write_json(body if events is None else {**body, "events": list(events)})


def _path(webhook_id: str) -> str:
    return f"{_ROOT}/{quote(webhook_id, safe='')}"
