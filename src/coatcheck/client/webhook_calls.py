"""The calls on webhooks, once, for both clients.

What makes a secret is asked for once: said twice it would make two webhooks, or retire a secret
that nobody has seen. Everything else may be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from urllib.parse import quote

from coatcheck.client.effects import Steps, send
from coatcheck.client.new_job import write_json
from coatcheck.client.responses import read_object
from coatcheck.client.retry import RetryPolicy
from coatcheck.client.wire import JSON, ApiRequest

Shown = dict[str, Any]
State = Literal["pending", "delivered", "failed"]

_PAGE = "200"
_ALL = "/v1/webhooks"


class WebhookCalls:
    """The calls of one client, as steps that a driver carries out."""

    def __init__(self, patience: RetryPolicy) -> None:
        self._patience = patience

    def create(self, url: str, events: Sequence[str] | None, description: str) -> Steps[Shown]:
        """Make a webhook."""
        content = _write(url, events, description)
        return self._once(_sending("POST", _ALL, content), "id", "secret")

    def change(
        self, webhook_id: str, url: str, events: Sequence[str] | None, description: str
    ) -> Steps[Shown]:
        """Change a webhook to this."""
        content = _write(url, events, description)
        return self._object(_sending("PUT", _path(webhook_id), content), "id")

    def all(self) -> Steps[list[Shown]]:
        """Read all webhooks, page by page."""
        return self._pages(_ALL, "webhooks")

    def get(self, webhook_id: str) -> Steps[Shown]:
        """Read a webhook."""
        return self._object(ApiRequest("GET", _path(webhook_id)), "id")

    def delete(self, webhook_id: str) -> Steps[None]:
        """Delete a webhook."""
        answer, lost = yield from self._patience.ask(ApiRequest("DELETE", _path(webhook_id)))
        if not (lost and answer.status == 404):  # deleted by a request whose answer was lost
            read_object(answer)

    def steer(self, webhook_id: str, deed: str) -> Steps[Shown]:
        """Enable or disable a webhook."""
        return self._object(ApiRequest("POST", f"{_path(webhook_id)}/{deed}"), "id")

    def rotate(self, webhook_id: str | None) -> Steps[Shown]:
        """Make a new secret for a webhook, or for jobs' own."""
        place = f"{_ALL}/secret" if webhook_id is None else _path(webhook_id)
        return self._once(ApiRequest("POST", f"{place}/rotate"), "secret")

    def secret(self) -> Steps[str]:
        """Read the secret of jobs' own webhooks."""
        found = yield from self._object(ApiRequest("GET", f"{_ALL}/secret"), "secret")
        return str(found["secret"])

    def deliveries(
        self, webhook_id: str | None, job_id: str | None, state: State | None
    ) -> Steps[list[Shown]]:
        """Read the deliveries of a webhook or a job, page by page."""
        if (webhook_id is None) == (job_id is None):
            raise ValueError("give either a webhook or a job")
        place = f"/v1/jobs/{quote(job_id, safe='')}" if job_id else _path(webhook_id or "")
        query = () if state is None else (("state", state),)
        return self._pages(f"{place}/deliveries", "deliveries", query)

    def redeliver(self, delivery_id: str) -> Steps[Shown]:
        """Have a delivery sent again."""
        path = f"{_ALL}/deliveries/{quote(delivery_id, safe='')}/redeliver"
        return self._object(ApiRequest("POST", path), "id")

    def redeliver_failed(self, webhook_id: str) -> Steps[int]:
        """Have sent again what a webhook has not taken."""
        request = ApiRequest("POST", f"{_path(webhook_id)}/redeliver")
        found = yield from self._object(request, "deliveries")
        return int(found["deliveries"])

    def _pages(
        self, path: str, member: str, query: tuple[tuple[str, str], ...] = ()
    ) -> Steps[list[Shown]]:
        found: list[Shown] = []
        cursor: str | None = None
        while True:
            more = () if cursor is None else (("cursor", cursor),)
            request = ApiRequest("GET", path, (("limit", _PAGE), *query, *more))
            page = yield from self._object(request, member, "next_cursor")
            found += page[member]
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    def _object(self, request: ApiRequest, *members: str) -> Steps[Shown]:
        answer, _ = yield from self._patience.ask(request)
        return read_object(answer, *members)

    def _once(self, request: ApiRequest, *members: str) -> Steps[Shown]:
        got = yield from send(request, self._patience.timeout_s)
        return read_object(self._patience.give_up(got), *members)


def _write(url: str, events: Sequence[str] | None, description: str) -> bytes:
    body: Shown = {"url": url, "description": description}
    return write_json(body if events is None else {**body, "events": list(events)})


def _sending(method: str, path: str, content: bytes) -> ApiRequest:
    return ApiRequest(method, path, (), {"accept": JSON, "content-type": JSON}, content)


def _path(webhook_id: str) -> str:
    return f"{_ALL}/{quote(webhook_id, safe='')}"
