"""The fast paths: claim in one round trip, and settle jobs that are unchanged since their claim.

*Claim.* Plain jobs are claimed by one statement (`claim` in queries.sql). If other jobs exist, it
claims nothing and says so; fair_claim.py takes over. This statement and the settlement of successes
repeat rules of `coatcheck.model.transition` in SQL: the status after `claimed` and `settled`, and
the event. tests/store/rules.py pins them case by case, and random histories compare both stores.

*Settle.* A worker usually settles a job that it claimed through the same store a moment before. So
the store remembers the status of the jobs it handed out, and how many events their reports have
added since. The store decides the transition from this memory, and writes it only if the row is
still the same: every transition and every report changes the fence or the number of the last event.
If one job of a batch has changed or is not remembered, nothing is written and the batch takes the
careful path: lock, read, decide, write. If all jobs succeeded, only their results are sent, and the
rest follows from the rows (`succeed_as_claimed`): encoding and decoding 18 columns was half the
cost of a settlement. Correctness does not depend on this memory, so it may be dropped, and is when
it grows too large.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from coatcheck.model import transition as rules
from coatcheck.model.job import Claim, Lease, Terms
from coatcheck.model.outcome import Succeeded
from coatcheck.model.payload import is_reference
from coatcheck.model.state import State
from coatcheck.model.transition import JobStatus
from coatcheck.store.base import ClaimResult, Settlement, Topic
from coatcheck.store.postgres.claims.cursor import ClaimCursor, Lane
from coatcheck.store.postgres.database.column_encoding import as_texts, in_columns
from coatcheck.store.postgres.database.statements import Statements
from coatcheck.store.postgres.operations import waiters
from coatcheck.store.shared.fairness import RoundRobin
from coatcheck.store.shared.rows import decode_failure, status_row

PROMOTE_AT_ONCE = 1_000
# How many claimed jobs are remembered: far more than the workers of one process hold.
MOST_REMEMBERED = 20_000
# The columns of `claim` at which the status and the terms begin.
_STATUS, _TERMS = 11, 20
# A column of `claim`, counted from its end. After it: the number of deliveries, the duration of the
# search, and whether fairness is needed.
_LIMITED = -4
# The columns of `succeed_as_claimed` that are sent once if all jobs have the same value.
_SAME_FOR_MANY = (0, 2, 3, 4)


class ClaimedRows:
    """The status of the jobs that workers claimed through this store."""

    def __init__(self) -> None:
        self._jobs: dict[Lease, tuple[Any, Terms, str, int]] = {}
        self._said: dict[Lease, int] = {}

    def remember(self, lease: Lease, row: Any, terms: Terms, worker: str, now: int) -> None:
        """Remember a job as its claim left it."""
        self._jobs[lease] = (row, terms, worker, now)

    def forget(self, settlements: Sequence[Settlement]) -> None:
        """Forget settled jobs, and the oldest of those that were never settled here."""
        for lease, _, _ in settlements:
            self._jobs.pop(lease, None)
            self._said.pop(lease, None)
        while len(self._jobs) > MOST_REMEMBERED:
            oldest = next(iter(self._jobs))
            del self._jobs[oldest]
            self._said.pop(oldest, None)

    def said(self, lease: Lease, entries: int) -> None:
        """Record that a report added events to a job."""
        if entries and lease in self._jobs:
            self._said[lease] = self._said.get(lease, 0) + entries

    def lane(self, lease: Lease) -> tuple[Lane, str]:
        """Return the lane and id of a remembered job."""
        return _lane(self._jobs[lease][0])

    def parents_wait_for(self, settlements: Sequence[Settlement]) -> list[tuple[str, str]]:
        """Return the jobs that have a parent, which may wait for them."""
        found = ((item.lease, self._jobs.get(item.lease)) for item in settlements)
        return [
            (lease.tenant, lease.job_id)
            for lease, job in found
            if job is not None and job[1].parent is not None
        ]

    def last_event(self, lease: Lease) -> int | None:
        """Return the number of a job's last event, or None if the job is not remembered."""
        found = self._jobs.get(lease)
        if found is None:
            return None
        last: int = found[0][_TERMS - 1]
        return last + self._said[lease] if lease in self._said else last

    def find(self, lease: Lease) -> tuple[JobStatus, Terms] | None:
        """Return a job's status and terms after its claim, or None if it is not remembered."""
        found = self._jobs.get(lease)
        if found is None:
            return None
        row, terms, worker, now = found
        phase, attempt, fence, run_at, finished, expires, cancel, error, last = row[_STATUS:_TERMS]
        failure = None if error is None else decode_failure(error)
        status = JobStatus(
            State.RUNNING, False, phase, None, attempt, fence, worker, run_at, now, finished,
            expires, cancel, failure, last + self._said.get(lease, 0),
        )  # fmt: skip
        return status, terms


class Crowd(NamedTuple):
    """The conditions under which a claim needs fairness: jobs in lanes, or in queues with limits.

    With `closely`, only jobs of these kinds count (`names`: as lanes name them), and all jobs of
    the kinds `in_turn`.
    """

    closely: bool
    names: list[str]
    in_turn: list[str]


async def claim(
    db: Any,
    sql: Statements,
    handed: ClaimedRows,
    lanes: ClaimCursor,
    turns: RoundRobin,
    worker_id: str,
    kinds: Sequence[str],
    limit: int,
    now: int,
    crowd: Crowd,
) -> tuple[ClaimResult, set[Topic]] | None:
    """Claim the first plain jobs for a worker. Returns None if fairness is needed."""
    rows, woken = await _look(db, sql, lanes, worker_id, kinds, limit, now, crowd)
    if not rows:
        return ClaimResult([], None), set()  # the worker is not registered
    if rows[0][-1]:
        return None
    if rows[0][2] is not None:
        turns.took_plain(kinds, {_lane(row)[0] for row in rows})
    claimed, topics = handed_out(handed, rows, worker_id, now)
    return claimed, topics | {Topic.WEBHOOKS} if woken else topics


def handed_out(
    handed: ClaimedRows, rows: Sequence[Any], worker_id: str, now: int
) -> tuple[ClaimResult, set[Topic]]:
    """Convert the rows of a claim to its result, and remember the claimed jobs."""
    next_due, locked = rows[0][:2]
    claims = []
    same: dict[tuple[Any, ...], Terms] = {}  # most jobs have the same terms
    for row in rows if rows[0][2] is not None else ():
        _, _, tenant, id_, kind, surface, queue, correlation_id, traceparent, input_ = row[:10]
        agreed = row[_TERMS:_LIMITED]
        terms = same.get(agreed)
        if terms is None:
            terms = same[agreed] = Terms(*agreed)
        lease = Lease(tenant, id_, row[13])
        handed.remember(lease, row, terms, worker_id, now)
        attempt, run_at, traces = row[12], row[14], (correlation_id, traceparent)
        claims.append(Claim(lease, kind, surface, queue, input_, attempt, terms, run_at, *traces))
    topics = {Topic.CHANGES} if claims else set()
    if rows[0]["called"]:
        topics.add(Topic.WEBHOOKS)
    if locked > len(claims):
        topics.add(Topic.WORK)  # another claim may have skipped the locked jobs
    return ClaimResult(claims, None if next_due == rules.NEVER else next_due), topics


async def _look(
    db: Any,
    sql: Statements,
    lanes: ClaimCursor,
    worker_id: str,
    kinds: Sequence[str],
    limit: int,
    now: int,
    crowd: Crowd,
) -> tuple[list[Any], int]:
    """Run the claim in the known lanes, or everywhere. Returns its rows, and the number of webhook
    deliveries for jobs that had to be woken first.
    """
    woken = 0
    view = lanes.known(kinds)
    if view is not None:
        in_progress = view.start()
        in_kinds, *lane = view.columns()
        rows: list[Any] = await db.fetch(
            sql.claim_in_lanes, worker_id, in_kinds, now, limit, False, *crowd[1:], *lane
        )
        if not _is_something_due(rows, now):
            view.taken(in_progress, (_lane(row) for row in rows if row[2] is not None))
            if _has_let_go(rows):
                lanes.opened(in_progress.last.items())
            return rows, woken
        lanes.forget()
    start = time.monotonic()
    look = sql.claim_beside_others if crowd.closely else sql.claim_everywhere
    values, others = (worker_id, kinds, now, limit), crowd[1:] if crowd.closely else ()
    rows = await db.fetch(look, *values, False, *others)
    if _is_something_due(rows, now):
        woken = await promote(db, sql, lanes, now)
        rows = await db.fetch(look, *values, True, *others)
    if _has_let_go(rows):
        lanes.forget()  # claims by lane may have skipped jobs that this one locked
    if rows and lanes.is_slow(rows[0]["took"], rows[0]["jobs"]):
        view = lanes.reading(kinds)
        lanes.read(view, await db.fetch(sql.lanes, kinds), time.monotonic() - start)
    return rows, woken


async def promote(db: Any, sql: Statements, lanes: ClaimCursor, now: int) -> int:
    """Make due jobs claimable. Returns the number of webhook deliveries for them."""
    await db.execute(sql.promote_due, now, PROMOTE_AT_ONCE)
    woken = await waiters.wake_due(db, sql, now, PROMOTE_AT_ONCE)
    lanes.forget()
    return woken


def _is_something_due(rows: Sequence[Any], now: int) -> bool:
    return bool(rows) and rows[0][0] is not None and rows[0][0] <= now


def _has_let_go(rows: Sequence[Any]) -> bool:
    """Return whether the claim locked more jobs than it claimed."""
    return bool(rows) and rows[0][1] > (0 if rows[0][2] is None else len(rows))


def _lane(row: Any) -> tuple[Lane, str]:
    return (row[4], row[6], row[10]), row[3]


async def settle_as_claimed(
    db: Any,
    sql: Statements,
    handed: ClaimedRows,
    lanes: ClaimCursor,
    settlements: Sequence[Settlement],
    now: int,
) -> set[Topic] | None:
    """Settle jobs that are unchanged since their claims. Returns None if any has changed."""
    succeeded = _all_succeeded(handed, settlements)
    if succeeded is not None:
        row = await db.fetchrow(sql.succeed_as_claimed, *succeeded, now, len(settlements))
        return _told(row, {Topic.CHANGES})
    rows: dict[tuple[str, str], Any] = {}
    topics, again = {Topic.CHANGES}, []
    for lease, outcome, report in settlements:
        found = handed.find(lease)
        if found is None or report is not None or found[1].parent is not None:
            return None
        status, event = rules.settled(*found, outcome, now)
        if status.state in (State.WAITING, State.CANCELLED):
            return None  # other jobs are affected
        if status.state is State.QUEUED:
            topics.add(Topic.WORK)
            again.append(handed.lane(lease))
        result = outcome.result if isinstance(outcome, Succeeded) else None
        if result is not None and is_reference(result):
            return None  # its blob has to be adopted in the same transaction
        key = (lease.tenant, lease.job_id)
        rows[key] = (*key, *status_row(status), event, result)
    if not rows or len(rows) < len(settlements):
        return None  # the same job twice
    values = in_columns([rows[key] for key in sorted(rows)])
    row = await db.fetchrow(sql.settle_as_claimed, *values, now, len(rows))
    told = _told(row, topics)
    if told is not None:
        lanes.opened(again)
    return told


def _told(row: Any, topics: set[Topic]) -> set[Topic] | None:
    """Return the topics to publish: the row has the number of settled jobs, the number of webhook
    deliveries, and whether a settled job counted for a limit, so that another can start.
    """
    settled, deliveries, room = row
    if not settled:
        return None
    if room:
        topics.add(Topic.WORK)
    return topics | {Topic.WEBHOOKS} if deliveries else topics


def _all_succeeded(
    handed: ClaimedRows, settlements: Sequence[Settlement]
) -> list[str | None] | None:
    """Return the values for `succeed_as_claimed`, or None if it does not apply."""
    rows = []
    for (tenant, id_, fence), outcome, report in settlements:
        if report is not None or not isinstance(outcome, Succeeded) or is_reference(outcome.result):
            return None
        last_event = handed.last_event(Lease(tenant, id_, fence))
        if last_event is None:
            return None
        rows.append((tenant, id_, fence, last_event, outcome.result))
    rows.sort()
    columns = list(zip(*rows, strict=True))
    if not rows or len(set(columns[1])) < len(rows):
        return None  # the same job twice, or the same id with two tenants
    return as_texts(columns, _SAME_FOR_MANY)
