"""Build the listing of jobs: one index range, scanned from its end. Values are always bound.

The most selective condition decides which index is scanned: a parent, a label in its own index, a
kind or a queue in the narrow table `listing`, which no transition touches, or else the jobs.
"""

from __future__ import annotations

from typing import Any

from coatcheck.ids import first_ulid_at
from coatcheck.store.base import JobFilter
from coatcheck.store.postgres.database.statements import Statements


def list_query(sql: Statements, which: JobFilter) -> tuple[str, tuple[Any, ...]]:
    """Return the statement and its values."""
    if which.parent is not None:
        return _of_parent(sql, which)
    if which.labels:
        return _by_label(sql, which)
    query = _Query(sql)
    table, source = "jobs", sql.from_jobs
    if which.kind is not None or which.queue is not None:
        table = "listing"
        source = sql.from_listing if which.state is None else sql.from_listing_or_state
    query.add(f"{table}.tenant =", which.tenant)
    query.add("state =", which.state)
    query.add("listing.kind =", which.kind)
    query.add("listing.queue =", which.queue)
    query.add_bounds(f"{table}.id", which)
    return query.build(source, f"{table}.id", which.limit)


def _by_label(sql: Statements, which: JobFilter) -> tuple[str, tuple[Any, ...]]:
    query = _Query(sql)
    (name, value), *others = which.labels
    query.add("labelled.tenant =", which.tenant)
    query.add("labelled.name =", name)
    query.add("labelled.value =", value)
    query.add("state =", which.state)
    query.add("jobs.kind =", which.kind)
    query.add("jobs.queue =", which.queue)
    # The planner does not derive the bounds of one table from the other's, so both are given.
    query.add("jobs.tenant =", which.tenant)
    query.add_bounds("jobs.id", which)
    query.add_bounds("labelled.job_id", which)
    for label in others:
        query.add_label(label)
    return query.build(sql.from_labels, "labelled.job_id", which.limit)


def _of_parent(sql: Statements, which: JobFilter) -> tuple[str, tuple[Any, ...]]:
    query = _Query(sql)
    query.add("jobs.tenant =", which.tenant)
    query.add("jobs.parent =", which.parent)
    query.add("state =", which.state)
    query.add("jobs.kind =", which.kind)
    query.add("jobs.queue =", which.queue)
    query.add_bounds("jobs.id", which)
    for label in which.labels:
        query.add_label(label)
    return query.build(sql.from_jobs, "jobs.id", which.limit)


class _Query:
    """Conditions, and the values that they bind."""

    def __init__(self, sql: Statements) -> None:
        self._sql = sql
        self._conditions: list[str] = []
        self._values: list[Any] = []

    def add(self, condition: str, value: Any) -> None:
        if value is not None:
            self._conditions.append(f"{condition} {self._bind(value)}")

    def add_bounds(self, id_: str, which: JobFilter) -> None:
        since = which.created_after
        self.add(f"{id_} >=", None if since is None else first_ulid_at(since))
        self.add(f"{id_} <", which.before)

    def add_label(self, label: tuple[str, str]) -> None:
        text = self._sql.has_label.replace("/* name */", self._bind(label[0]))
        self._conditions.append(text.replace("/* value */", self._bind(label[1])))

    def build(self, source: str, order: str, limit: int) -> tuple[str, tuple[Any, ...]]:
        text = self._sql.list_jobs.replace("/* source */", source)
        text = text.replace("/* conditions */", " AND ".join(self._conditions))
        return f"{text} ORDER BY {order} DESC LIMIT {int(limit)}", tuple(self._values)

    def _bind(self, value: Any) -> str:
        self._values.append(value)
        return f"${len(self._values)}"
