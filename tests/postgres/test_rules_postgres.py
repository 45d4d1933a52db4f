"""The PostgreSQL store follows the pure rules of a job's life, by both of its paths."""

from __future__ import annotations

from typing import Any

import pytest

from coatcheck.store.postgres.claims import fast_claim
from coatcheck.store.postgres.store import PostgresStore
from tests.store.rules import CASES, check_rule

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", CASES)
async def test_the_fast_path_follows_the_rules(store: PostgresStore, name: str) -> None:
    await check_rule(store, CASES[name])


@pytest.mark.parametrize("name", CASES)
async def test_the_careful_path_follows_the_rules(
    store: PostgresStore, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def not_applicable(*_: Any) -> None:
        return None

    monkeypatch.setattr(fast_claim, "settle_as_claimed", not_applicable)
    await check_rule(store, CASES[name])
