"""The synchronous client is generated from the asynchronous one."""

from __future__ import annotations

import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

from coatcheck import AsyncClient, AsyncJobHandle, Client, JobHandle
from coatcheck.client.async_webhooks import AsyncWebhookClient
from coatcheck.client.webhooks import WebhookClient

TOOL = Path(__file__).parents[2] / "tools" / "unasync.py"
PAIRS = [(Client, AsyncClient), (JobHandle, AsyncJobHandle), (WebhookClient, AsyncWebhookClient)]
ITERATORS = {"events", "iterate"}


def test_generated_modules_are_up_to_date() -> None:
    tool = runpy.run_path(str(TOOL))
    for source, target in tool["MODULES"].items():
        expected = tool["generate"](tool["PACKAGE"] / source)
        found = (tool["PACKAGE"] / target).read_text(encoding="utf-8")
        assert found == expected, f"{target} is outdated: run `make unasync`"


def public(kind: type) -> dict[str, Any]:
    found = inspect.getmembers(kind, inspect.isfunction)
    return {name: call for name, call in found if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "asynchronous"), PAIRS)
def test_both_clients_have_the_same_methods(sync: type, asynchronous: type) -> None:
    assert list(public(sync)) == list(public(asynchronous))
    for name, call in public(sync).items():
        other = public(asynchronous)[name]
        assert _arguments(call) == _arguments(other), name
        assert inspect.iscoroutinefunction(other) == (name not in ITERATORS), name


def _arguments(call: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(call).parameters.values())
