"""Submit a job inside the caller's own transaction, with the caller's driver.

The work is one call of the SQL function `enqueue` of our schema (see the migrations), so a driver
only has to run a statement with three texts. The job exists if and only if the caller's transaction
commits; the wake-up is delivered with that commit.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any

from coatcheck.errors import ConfigurationError
from coatcheck.model import transition as rules
from coatcheck.model.job import JobInsert
from coatcheck.store.postgres.database.statements import check_schema_name
from coatcheck.store.shared.rows import NEW_JOB_COLUMNS, new_job_row


def enqueue(connection: Any, job: JobInsert, now: int, schema: str) -> Any:
    """Run the statement on a connection of asyncpg, psycopg or SQLAlchemy.

    Returns the result of the driver's own execute: an awaitable if the driver is asynchronous.
    """
    check_schema_name(schema)
    status, event = rules.created(job.run_at, now)
    columns = dict(zip(NEW_JOB_COLUMNS, new_job_row(job, status), strict=True))
    row = json.dumps({**columns, "input_until": job.input_until})
    call = f'SELECT "{schema}".enqueue'
    match type(connection).__module__.partition(".")[0]:
        case "asyncpg":
            return connection.execute(f"{call}($1::jsonb, $2, $3)", row, job.input, event)
        case "psycopg":
            return connection.execute(f"{call}(%s::jsonb, %s, %s)", (row, job.input, event))
        case "sqlalchemy":
            return _with_sqlalchemy(connection, call, row, job.input, event)
    raise ConfigurationError(
        f"a {type(connection).__name__} is no connection of asyncpg, psycopg 3 or SQLAlchemy"
    )


def _with_sqlalchemy(connection: Any, call: str, row: str, text: str, event: str) -> Any:
    from sqlalchemy import text as statement  # noqa: PLC0415 - the caller has it installed

    values = {"job": row, "input": text, "event": event}
    return connection.execute(statement(f"{call}(CAST(:job AS jsonb), :input, :event)"), values)


async def when_done(pending: Awaitable[Any], job_id: str) -> str:
    """Wait for an asynchronous driver and return the job's id."""
    await pending
    return job_id
