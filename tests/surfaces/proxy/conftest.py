from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from coatcheck.surfaces.proxy.rule import read_rules
from coatcheck.surfaces.proxy.surface import ProxySurface
from tests.relay.conftest import Running, anyio_backend, serve
from tests.relay.upstreams import Script, Service, service

__all__ = ["anyio_backend", "serve"]

Proxied = Callable[..., AbstractAsyncContextManager[tuple[Service, Running]]]


@pytest.fixture
def proxied(serve: Callable[..., AbstractAsyncContextManager[Running]]) -> Proxied:
    """Serve rules in front of a service that follows a script."""

    @contextlib.asynccontextmanager
    async def proxied(
        script: Script, *matches: str, works: bool = True, **keys: Any
    ) -> AsyncIterator[tuple[Service, Running]]:
        async with service(script) as up:
            rules = read_rules(
                [
                    {"match": match, "target": up.url, **keys}
                    for match in matches or ("POST /reports/*",)
                ]
            )
            async with serve(ProxySurface(rules), works=works) as running:
                yield up, running

    return proxied
