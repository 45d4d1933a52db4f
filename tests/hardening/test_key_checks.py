"""The duration of a key check reveals nothing: a wrong key is hashed and compared like a
right one.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from coatcheck.clock import SystemClock
from coatcheck.engine import auth
from coatcheck.engine.auth import Authenticator
from coatcheck.errors import Unauthorized
from coatcheck.store.sqlite.store import SQLiteStore

pytestmark = pytest.mark.anyio


class Watched:
    """The module `hmac`, with a record of its use."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.compared: list[tuple[int, int]] = []

    def digest(self, key: bytes, message: bytes, how: str) -> bytes:
        self.calls.append("digest")
        return hmac.digest(key, message, how)

    def compare_digest(self, one: bytes, other: bytes) -> bool:
        self.calls.append("compare")
        self.compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SQLiteStore]:
    store = SQLiteStore(tmp_path / "jobs.db")
    await store.open()
    yield store
    await store.close()


async def test_every_wrong_key_costs_one_digest_and_one_comparison(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = Authenticator(store, SystemClock(), lambda: b"pepper")
    key, shown = await keeper.create_key("acme", ["jobs:read"])
    assert len(bytes.fromhex(shown.rpartition("_")[2])) * 8 == 256  # as SECURITY.md says
    right = shown.encode()
    wrong = {
        "another secret": right[:-1] + (b"0" if right[-1:] != b"0" else b"1"),
        "another first letter": right[:16] + b"x" + right[17:],
        "no secret": f"ck_{key.id}_".encode(),
        "the id alone": f"ck_{key.id}".encode(),
        "too long": right + b"a",
        "very long": right + b"a" * 60_000,
        "an unknown id": b"ck_000000000000_" + right[16:],
        "no key at all": b"password",
        "nothing": b"",
        "not ASCII": b"ck_\xff\xfe" + right[5:],
        "a NUL": right[:20] + b"\0" + right[21:],
        "capitals": right.upper(),
    }
    for remembered in (False, True):
        if remembered:
            assert (await keeper.authenticate(right)).tenant == "acme"
        for what, token in wrong.items():
            watched = Watched()
            monkeypatch.setattr(auth, "hmac", watched)
            with pytest.raises(Unauthorized, match="there is no such key"):
                await keeper.authenticate(token)
            assert watched.calls == ["digest", "compare"], what
            assert watched.compared == [(32, 32)], what


async def test_only_the_holder_learns_that_a_key_is_revoked(store: SQLiteStore) -> None:
    keeper = Authenticator(store, SystemClock(), lambda: b"pepper")
    key, shown = await keeper.create_key("acme", ["jobs:read"])
    await keeper.revoke_key(key.id)
    with pytest.raises(Unauthorized, match="was revoked"):
        await keeper.authenticate_fresh(shown.encode())
    with pytest.raises(Unauthorized, match="there is no such key"):
        await keeper.authenticate_fresh(f"ck_{key.id}_{'0' * 64}".encode())
