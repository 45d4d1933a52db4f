"""The address and key of a client's server."""

from __future__ import annotations

import pytest

from coatcheck import Client, Unreachable
from coatcheck.client.address import find_address
from coatcheck.errors import ConfigurationError


def test_arguments_take_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COATCHECK_URL", raising=False)
    monkeypatch.delenv("COATCHECK_API_KEY", raising=False)
    assert find_address(None, None).url == "http://127.0.0.1:8080"
    assert find_address(None, None).headers == {}

    monkeypatch.setenv("COATCHECK_URL", "https://coats.example/base/")
    monkeypatch.setenv("COATCHECK_API_KEY", "ck_env")
    found = find_address(None, None)
    assert (found.url, found.headers) == (
        "https://coats.example/base",
        {"authorization": "Bearer ck_env"},
    )
    given = find_address("http://localhost:1", "ck_given")
    assert (given.url, given.headers["authorization"]) == ("http://localhost:1", "Bearer ck_given")
    assert find_address(None, "").headers == {}


def test_key_is_never_shown() -> None:
    assert "secret" not in repr(find_address("http://localhost:1", "secret"))


def test_password_in_the_address_is_never_shown() -> None:
    with (
        Client("http://somebody:secret@nowhere.invalid/base", retry_for=0) as client,
        pytest.raises(Unreachable, match=r"at http://nowhere\.invalid/base: ") as unreachable,
    ):
        client.get("7")

    assert "secret" not in str(unreachable.value)


@pytest.mark.parametrize(
    "url",
    [
        "localhost:8080",
        "ftp://localhost",
        "http://",
        "http://a:b",
        "http://a?x",
        "http://a b",
        "http://☃.example",
        "",
        "http://[",
    ],
)
def test_invalid_address_is_rejected(url: str) -> None:
    with pytest.raises(ConfigurationError, match="is not the address of a server"):
        Client(url)


@pytest.mark.parametrize("key", ["two words", "two\nlines", "schlüssel"])
def test_invalid_key_is_rejected_without_being_shown(key: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        Client("http://localhost", key)

    assert key not in str(refused.value)
