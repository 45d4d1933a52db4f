"""Limits over several processes, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from coatcheck.store.postgres.store import PostgresStore
from tests.store.limited_process import check, fill, run_processes


@pytest.mark.anyio
async def test_limits_hold_over_processes(
    store: PostgresStore, dsn: str, schema: str, tmp_path: Path
) -> None:
    counts_for = await fill(store)
    run_processes(dsn, schema, tmp_path / "log")
    check(tmp_path / "log", counts_for)
