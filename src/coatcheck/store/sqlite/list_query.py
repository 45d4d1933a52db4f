"""Build the listing of jobs: one index range, scanned from its end. Values are always bound.

The query names its index explicitly. SQLite has no statistics on how many jobs are in each state;
given two bounds on the id, it would scan all jobs of a tenant instead.
"""

from __future__ import annotations

from typing import Any

from coatcheck.ids import first_ulid_at
from coatcheck.model.state import State
from coatcheck.store.base import JobFilter
from coatcheck.store.sqlite.database.statements import SQL

_HAS_LABEL = (
    "EXISTS (SELECT 1 FROM labels AS other WHERE other.tenant = jobs.tenant "
    "AND other.name = ? AND other.value = ? AND other.job_id = jobs.id)"
)


def list_query(which: JobFilter) -> tuple[str, tuple[Any, ...]]:
    """Return the statement and its values."""
    if which.labels and which.parent is None and not _is_narrow(which.state):
        return _by_label(which)
    conditions, values = ["jobs.tenant = ?"], [which.tenant]
    _add_common(which, "jobs.id", which.labels, conditions, values)
    sql = SQL.list_jobs.replace("/* conditions */", " AND ".join(conditions))
    return sql.replace("/* index */", _index_for(which)), (*values, which.limit)


def _by_label(which: JobFilter) -> tuple[str, tuple[Any, ...]]:
    first, *others = which.labels
    conditions = ["labels.tenant = ?", "labels.name = ?", "labels.value = ?"]
    values: list[Any] = [which.tenant, *first]
    _add_common(which, "labels.job_id", others, conditions, values)
    sql = SQL.list_labelled.replace("/* conditions */", " AND ".join(conditions))
    return sql, (*values, which.limit)


def _add_common(
    which: JobFilter, id_column: str, labels: Any, conditions: list[str], values: list[Any]
) -> None:
    for column, value in (
        ("parent", which.parent),
        ("state", which.state),
        ("kind", which.kind),
        ("queue", which.queue),
    ):
        if value is not None:
            conditions.append(f"jobs.{column} = ?")
            values.append(value)
    if which.created_after is not None:
        conditions.append(f"{id_column} >= ?")
        values.append(first_ulid_at(which.created_after))
    if which.before is not None:
        conditions.append(f"{id_column} < ?")
        values.append(which.before)
    for label in labels:
        conditions.append(_HAS_LABEL)
        values.extend(label)


def _is_narrow(state: State | None) -> bool:
    # Most jobs have succeeded, so that state is the least selective.
    return state is not None and state is not State.SUCCEEDED


def _index_for(which: JobFilter) -> str:
    if which.parent is not None:
        return "INDEXED BY jobs_by_parent"
    if _is_narrow(which.state):
        return "INDEXED BY jobs_by_state"
    if which.kind is not None:
        return "INDEXED BY jobs_by_kind"
    if which.queue is not None:
        return "INDEXED BY jobs_by_queue"
    return "INDEXED BY jobs_by_state" if which.state is not None else "INDEXED BY jobs_by_id"
