"""The two clients are one: the same calls, with the same arguments, said in the same words."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from coatcheck import AsyncClient, AsyncJobHandle, Client, JobHandle
from coatcheck.client.webhooks import AsyncWebhookClient, WebhookClient

PAIRS = [(Client, AsyncClient), (JobHandle, AsyncJobHandle), (WebhookClient, AsyncWebhookClient)]
ITERATORS = {"events", "iterate"}


def public(kind: type) -> dict[str, Any]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: call for name, call in found if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_have_the_same_calls(sync: type, asynchronous: type) -> None:
    assert list(public(sync)) == list(public(asynchronous))
    for name, call in public(sync).items():
        other = public(asynchronous)[name]
        assert _arguments(call) == _arguments(other), name
        assert other.__doc__.startswith(call.__doc__.rstrip()), name
        assert inspect.iscoroutinefunction(other) == (name not in ITERATORS), name


def _arguments(call: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(call).parameters.values())
