"""Hostile path and query values, on PostgreSQL: it takes no NUL, and has smaller integers."""

from __future__ import annotations

import pytest

from tests.http.test_hostile_parameters import test_no_path_or_query_makes_a_call_fail

__all__ = ["test_no_path_or_query_makes_a_call_fail"]

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]


@pytest.fixture
def store_settings(dsn: str, schema: str) -> dict[str, str]:
    return {"database": dsn, "schema": schema}
