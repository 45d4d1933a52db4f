"""The egress policy, by a long table of denied addresses."""

from __future__ import annotations

import pytest

from coatcheck.egress.policy import EgressPolicy
from coatcheck.egress.target import read_target
from coatcheck.errors import ConfigurationError, EgressDenied, EgressFailed
from tests.egress.hostile import HARMLESS, HOSTILE, NAMES, resolve

pytestmark = pytest.mark.anyio


def test_there_are_enough_hostile_addresses() -> None:
    assert len(set(HOSTILE)) == len(HOSTILE) > 150


@pytest.mark.parametrize("url", HOSTILE)
async def test_hostile_addresses_are_denied(url: str) -> None:
    with pytest.raises(EgressDenied) as denied:
        await EgressPolicy(resolver=resolve).check_resolved(url)
    assert denied.value.problems
    inside = [address for addresses in NAMES.values() for address in addresses]
    assert not any(address in str(denied.value) for address in inside)


@pytest.mark.parametrize("url", HARMLESS)
async def test_public_addresses_are_allowed(url: str) -> None:
    await EgressPolicy(resolver=resolve).check_resolved(url)


async def test_one_private_address_denies_them_all() -> None:
    policy = EgressPolicy(resolver=resolve)
    with pytest.raises(EgressDenied):
        await policy.addresses(read_target("http://mixed.example/"))


async def test_an_unresolved_name_is_accepted_but_not_called() -> None:
    policy = EgressPolicy(resolver=resolve)
    target = await policy.check_resolved("https://not-yet.example/hook")
    with pytest.raises(EgressFailed, match="resolved"):
        await policy.addresses(target)


@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000/"),
        ("127.0.0.0/8, ::1", "http://[::1]/"),
        ("10.0.0.0/8", "http://private.example/"),
        ("intranet", "http://intranet/"),
        ("INTRANET.", "http://Intranet/"),
        ("localhost", "http://localhost:8000/"),
        ("*.google.internal", "http://metadata.google.internal/"),
        ("169.254.169.254,10.0.0.0/8", "http://metadata.example/"),
    ],
)
async def test_allowed_addresses_can_be_called(allow: str, url: str) -> None:
    await EgressPolicy(allow, resolve).check_resolved(url)


@pytest.mark.parametrize(
    ("allow", "url"),
    [
        ("10.0.0.0/8", "http://192.168.0.1/"),
        ("127.0.0.1", "http://127.0.0.2/"),
        ("127.0.0.1", "http://mixed6.example/"),
        ("intranet", "http://private.example/"),
        ("*.intranet", "http://intranet/"),
        ("google.internal", "http://metadata.google.internal/"),
        ("localhost", "http://127.0.0.1/"),
        ("127.0.0.1", "http://user@127.0.0.1/"),
        ("127.0.0.1", "http://2130706433/"),
    ],
)
async def test_addresses_beside_the_allow_list_are_denied(allow: str, url: str) -> None:
    with pytest.raises(EgressDenied):
        await EgressPolicy(allow, resolve).check_resolved(url)


@pytest.mark.parametrize("allow", ["10.0.0.0/33", "a b", "http://x/", "*", "10.0.0.1/8", "x:80:1"])
def test_an_invalid_allow_list_is_rejected(allow: str) -> None:
    with pytest.raises(ConfigurationError, match="egress_allow"):
        EgressPolicy(allow)


def test_the_properties_of_a_target() -> None:
    target = read_target("HTTPS://Example.COM.:443/a?b=c")
    assert (target.url, target.authority) == ("https://example.com/a?b=c", "example.com")
    assert read_target("http://[2606:2800:0::1]:81").url == "http://[2606:2800::1]:81/"
