"""PostgreSQL only: word counts follow the documents, and plans convert parameters once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator

import asyncpg
import psycopg
import pytest

from coatcheck.surfaces.ingest.index.base import document_id
from coatcheck.surfaces.ingest.index.postgres.schema import IndexStatements, prepare

from .conftest import IndexLocation, new_id
from .library import Library

pytestmark = pytest.mark.anyio

COUNTS = 'SELECT count(*) FROM "{schema}".search_word_counts'
MISCOUNTED = """
SELECT word, known.passages, found.passages
FROM "{schema}".search_word_counts known
FULL JOIN (SELECT lexeme AS word, count(*) AS passages
           FROM "{schema}".search_words, unnest(words) GROUP BY lexeme) AS found USING (word)
WHERE known.passages IS DISTINCT FROM found.passages
"""
# One document with one passage, before words were stored apart from texts.
AS_IT_WAS = """
WITH collection AS (
  INSERT INTO search_collections (tenant, name, embedder, dimensions, created_at)
  VALUES ('ann', 'docs', 'words-of-tests', 24, 0) RETURNING key
), document AS (
  INSERT INTO search_documents (tenant, id, collection, name, title, format, sha256, size, metadata,
                                version, passages, created_at, updated_at)
  SELECT 'ann', $1, key, 'old', 'Old', 'text', '', 1, '{}', '0', 1, 0, 0 FROM collection
  RETURNING key, collection
)
INSERT INTO search_passages (document, ordinal, text, starts, ends, headings, words)
SELECT key, 0, 'gneiss and schist', 0, 17, '[]',
       format('%1$s.gneiss:1 %1$s.and:2 %1$s.schist:3', collection)::tsvector
FROM document
"""


@pytest.fixture
def location(dsn: str) -> Iterator[IndexLocation]:
    schema = f"search_{new_id().lower()}"
    yield IndexLocation(None, dsn, schema)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture
async def connection(location: IndexLocation) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(location.dsn)
    yield connection
    await connection.close()


async def test_word_counts_follow_the_documents(
    location: IndexLocation, library: Library, connection: asyncpg.Connection
) -> None:
    chance = random.Random(7)
    words = [f"word{number}" for number in range(12)]

    async def change(number: int) -> None:
        name, collection = f"document{number % 5}", f"collection{number % 2}"
        texts = [" ".join(chance.choices(words, k=6)) for _ in range(chance.randint(1, 4))]
        document = await library.put(name, *texts, "", collection=collection)
        if number % 3 == 0:
            await library.index.delete("ann", document)

    for first in range(0, 40, 4):
        await asyncio.gather(*(change(number) for number in range(first, first + 4)))
        assert await connection.fetch(MISCOUNTED.format(schema=location.schema)) == []
    assert await connection.fetchval(COUNTS.format(schema=location.schema)) > 0


async def test_deleted_words_leave_no_counts(
    location: IndexLocation, library: Library, connection: asyncpg.Connection
) -> None:
    await library.put("kept", "granite")
    document = await library.put("gone", "granite and zanzibar", "zanzibar")
    await library.index.delete("ann", document)
    rows = await connection.fetch(
        f'SELECT word, passages FROM "{location.schema}".search_word_counts'
    )
    assert [(word.partition(".")[2], passages) for word, passages in rows] == [("granite", 1)]


async def test_index_of_the_first_release_is_migrated(
    location: IndexLocation, connection: asyncpg.Connection
) -> None:
    await prepare(location.dsn, location.schema)  # creates the extension if it is missing
    extension = await connection.fetchval(
        "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
    )
    sql = IndexStatements(location.schema, extension)
    first, *_ = sql.migrations()
    await connection.execute(f'DROP SCHEMA "{location.schema}" CASCADE')
    await connection.execute(f'CREATE SCHEMA "{location.schema}"')
    await connection.execute(f'SET search_path = "{location.schema}"')
    await connection.execute(
        "CREATE TABLE search_migrations (number integer PRIMARY KEY, name text NOT NULL)"
    )
    await connection.execute("INSERT INTO search_migrations VALUES (1, 'index')")
    await connection.execute(first.sql)
    await connection.execute(AS_IT_WAS, document_id("ann", "docs", "old"))
    async with location.library() as library:
        await library.put("new", "gneiss roof")
        assert await library.names("gneiss") == {"old", "new"}
        assert await connection.fetch(MISCOUNTED.format(schema=location.schema)) == []
        await library.put("old", "schist")
        assert await library.names("gneiss") == {"new"}
        assert await connection.fetch(MISCOUNTED.format(schema=location.schema)) == []


@pytest.mark.parametrize("name", ["search_vectors", "search_signs"])
async def test_parameters_are_converted_once_and_not_per_row(
    location: IndexLocation, name: str
) -> None:
    statements = await prepare(location.dsn, location.schema)
    with psycopg.connect(location.dsn) as connection:
        plan = connection.execute(f"EXPLAIN (GENERIC_PLAN, VERBOSE) {getattr(statements, name)}")
        lines = [line.strip() for (line,) in plan]
    keys = [line for line in lines if line.startswith("Sort Key")]
    assert keys
    assert not [line for line in keys if "real[]" in line], "converted for each row"
