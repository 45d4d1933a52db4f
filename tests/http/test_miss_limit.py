"""Guessing links that need no key: misses are limited for each client, and in all."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from coatcheck import App
from coatcheck.engine.engine import Engine
from coatcheck.errors import NotFound
from coatcheck.http.app import create_http_app
from coatcheck.http.auth import miss_limit
from coatcheck.http.auth.miss_limit import MISSES_PER_MINUTE, MISSES_PER_MINUTE_TOTAL, MissLimiter
from coatcheck.http.endpoint import Access, Endpoint, EndpointResponse
from coatcheck.http.surfaces.base import Surface
from tests.hardening.surfaces import every_surface
from tests.http.arrange import StoppedClock

pytestmark = pytest.mark.anyio

GOOD = "/links/good"
ATTACKER, VIEWER = "93.184.216.34", "8.8.8.8"  # of the public internet, which others are not


async def follow(request: Request) -> Response:
    if request.path_params["link"] != "good":
        raise NotFound("there is nothing here")
    return PlainTextResponse("a picture")


class Links(Surface):
    """A surface with links that need no key."""

    name = "links"
    endpoints = (
        Endpoint(
            "GET",
            "/links/{link}",
            follow,
            "followLink",
            "Follow",
            "links",
            {200: EndpointResponse("It.", {"text/plain": {}})},
            access=Access.PUBLIC,
            is_capability=True,
        ),
    )

    def declare(self, app: App) -> None:
        """Declare nothing."""


class Clients:
    """Callers with addresses of their own."""

    def __init__(self, engine: Engine) -> None:
        self._app = create_http_app(engine, surfaces=[Links()])

    async def get(self, path: str, address: str, **headers: str) -> httpx2.Response:
        transport = httpx2.ASGITransport(app=self._app, client=(address, 1))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await http.get(path, headers=headers)

    async def guess(self, count: int, address: str, start: int = 0, **headers: str) -> list[int]:
        paths = [f"/links/guess{number}" for number in range(start, start + count)]
        return [(await self.get(path, address, **headers)).status_code for path in paths]


@pytest.fixture
def clients(engine: Engine) -> Clients:
    return Clients(engine)


async def test_a_guesser_is_told_to_wait_and_nothing_else(
    clients: Clients, clock: StoppedClock
) -> None:
    most = MISSES_PER_MINUTE
    assert await clients.guess(most, ATTACKER) == [404] * most
    for path in ("/links/another", GOOD):
        refused = await clients.get(path, ATTACKER)
        assert refused.status_code == 429, "whether there is a link is not told any more"
        assert refused.headers["retry-after"] == "2"
    assert (await clients.get(GOOD, VIEWER)).status_code == 200
    clock.milliseconds += 2_000
    assert await clients.guess(2, ATTACKER, most) == [404, 429]


async def test_many_addresses_together_are_limited_too(
    clients: Clients, clock: StoppedClock
) -> None:
    each, most = MISSES_PER_MINUTE, MISSES_PER_MINUTE_TOTAL
    for number in range(most // each):
        assert set(await clients.guess(each, f"203.0.113.{number}", number * each)) == {404}
    assert await clients.guess(1, VIEWER, most) == [429]
    clock.milliseconds += 60_000
    assert (await clients.get(GOOD, VIEWER)).status_code == 200


async def test_hits_and_links_that_are_dead_for_everybody_cost_nothing(clients: Clients) -> None:
    for _ in range(2 * MISSES_PER_MINUTE):
        assert (await clients.get(GOOD, VIEWER)).status_code == 200
        assert (await clients.get("/links/dead", VIEWER)).status_code == 404
    assert await clients.guess(1, VIEWER) == [404]


@pytest.mark.parametrize(
    ("peer", "forwarded", "others"),
    [
        # A proxy appends the address it sees; what stands before it is the client's own word.
        ("127.0.0.1", "{number}.1.1.1, 203.0.113.7", "198.51.100.9"),
        ("10.0.0.2", "203.0.113.7", "198.51.100.9"),
        ("127.0.0.1", "2001:db8:1:1::{number}", "2001:db8:1:2::1"),
    ],
)
async def test_behind_a_proxy_each_client_has_a_budget_of_its_own(
    clients: Clients, peer: str, forwarded: str, others: str
) -> None:
    for number in range(MISSES_PER_MINUTE):
        header = {"X-Forwarded-For": forwarded.format(number=number)}
        assert await clients.guess(1, peer, number, **header) == [404]
    last = {"X-Forwarded-For": forwarded.format(number=99)}
    assert (await clients.get(GOOD, peer, **last)).status_code == 429
    assert (await clients.get(GOOD, peer, **{"X-Forwarded-For": others})).status_code == 200


async def test_without_a_proxy_nobody_claims_to_be_another(clients: Clients) -> None:
    for number in range(MISSES_PER_MINUTE):
        header = {"X-Forwarded-For": f"198.51.100.{number}"}
        assert await clients.guess(1, ATTACKER, number, **header) == [404]
    answer = await clients.get(GOOD, ATTACKER, **{"X-Forwarded-For": VIEWER})
    assert answer.status_code == 429


async def test_what_is_remembered_is_bounded(
    clock: StoppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(miss_limit, "MAX_CLIENTS", 3)
    monkeypatch.setattr(miss_limit, "MAX_KNOWN_MISSES", 3)
    limit = MissLimiter(clock)
    limited = limit.wrap(follow)
    for number in range(10):
        scope: dict[str, Any] = {"type": "http", "method": "GET", "headers": []}
        scope |= {"path": f"/links/{number}", "path_params": {"link": str(number)}}
        scope["client"] = (f"203.0.113.{number}", 1)
        with pytest.raises(NotFound):
            await limited(Request(scope))
    assert (len(limit._by_client), len(limit._known_misses)) == (3, 3)


def test_every_link_that_needs_no_key_is_limited() -> None:
    for surface in every_surface():
        for endpoint in surface.endpoints:
            if endpoint.access is Access.PUBLIC and "{" in endpoint.path:
                assert endpoint.is_capability, endpoint.path
