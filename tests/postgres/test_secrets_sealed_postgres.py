"""Secrets of webhooks on PostgreSQL, where there is no pepper unless it is set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from coatcheck.engine.submit.submission import Submission
from coatcheck.errors import KeyMissing
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from tests.payloads.resealed import opened
from tests.payloads.secrets_sealed import ASKED, PEPPER, Rows, SecretsSealed

pytestmark = pytest.mark.anyio


@pytest.fixture
def settings(dsn: str, schema: str, tmp_path: Path) -> Settings:
    where = f"file://{tmp_path}/blobs"
    return Settings(database=dsn, schema=schema, blobs=where, connections=4, pepper=PEPPER)


@pytest.fixture
def rows(dsn: str, schema: str) -> Rows:
    def read() -> str:
        with psycopg.connect(dsn) as connection:
            return repr(connection.execute(f'SELECT * FROM "{schema}".webhook_secrets').fetchall())

    return read


class TestSecretsOnPostgres(SecretsSealed):
    pass


async def test_without_a_pepper_what_needs_a_secret_is_refused(
    settings: Settings, rows: Rows
) -> None:
    async with opened(replace(settings, pepper=""), "") as engine:
        with pytest.raises(KeyMissing, match="COATCHECK_PEPPER"):
            await engine.webhooks.create(ASKED)
        with pytest.raises(KeyMissing, match="COATCHECK_PEPPER"):
            await engine.submit(Submission("other", '"x"', webhook=ASKED))
        assert await engine.webhooks.page() == []
        assert await engine.store.jobs.list_jobs(JobFilter("default")) == []
        await engine.submit(Submission("other", '"x"'))
    assert rows() == "[]"
