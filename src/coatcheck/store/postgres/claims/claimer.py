"""The claims of this process, and the state it keeps between them.

If no job has to take turns, a claim is one round trip (fast_claim.py). Otherwise lanes take turns
(fair_claim.py). Three caches make that quick, and correctness depends on none of them: the status
of the claimed jobs, the lanes that hold jobs, and the kinds that need fairness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coatcheck.model.limit import Limit
from coatcheck.model.share import HeldSlots
from coatcheck.store.base import ClaimResult, Topic
from coatcheck.store.postgres.claims import fast_claim
from coatcheck.store.postgres.claims.cursor import ClaimCursor
from coatcheck.store.postgres.claims.fair_claim import FairClaimer
from coatcheck.store.postgres.database.pool import Database
from coatcheck.store.postgres.database.statements import Statements


class PostgresClaimer:
    """Claims jobs for workers."""

    def __init__(self, database: Database, sql: Statements) -> None:
        self._database = database
        self._sql = sql
        self.handed = fast_claim.ClaimedRows()
        self.lanes = ClaimCursor()
        self._in_turn = FairClaimer()
        self._counted: set[str] = set()  # kinds whose running jobs all count for their limits

    async def take(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
        held: HeldSlots | None = None,
    ) -> tuple[ClaimResult, set[Topic]]:
        """Claim due jobs: the first plain jobs, or lane by lane if fairness or limits apply.

        Also returns the topics to publish.
        """
        counted = {kind for kind, each in limits.items() if each.concurrency is not None}
        if not counted <= self._counted:
            await self._database.execute(self._sql.adopt_running, sorted(counted))
            self._counted |= counted
        try:
            done = None
            if held is None and not self._in_turn.is_crowded(kinds):
                done = await self._take_first(worker_id, kinds, limit, now, limits, versions)
            if done is None:
                done = await self._take_in_turn(
                    worker_id, kinds, limit, now, limits, versions, held
                )
        except BaseException:
            self.lanes.forget()  # jobs that it claimed or skipped may be claimable
            raise
        return done

    async def _take_first(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
    ) -> tuple[ClaimResult, set[Topic]] | None:
        crowd = self._in_turn.crowd(kinds, limits, versions)
        return await self._database.run(
            lambda db: fast_claim.claim(
                db,
                self._sql,
                self.handed,
                self.lanes,
                self._in_turn.turns,
                worker_id,
                kinds,
                limit,
                now,
                crowd,
            ),
            transaction=False,
            repeatable=False,
        )

    async def _take_in_turn(
        self,
        worker_id: str,
        kinds: Sequence[str],
        limit: int,
        now: int,
        limits: Mapping[str, Limit],
        versions: Mapping[str, str],
        held: HeldSlots | None,
    ) -> tuple[ClaimResult, set[Topic]]:
        woken = 0
        while True:
            chosen = await self._database.run(
                lambda db: self._in_turn.claim(
                    db, self._sql, worker_id, kinds, limit, now, limits, versions, held
                ),
                repeatable=False,
            )
            if not chosen.due:
                break
            woken += await self._database.run(
                lambda db: fast_claim.promote(db, self._sql, self.lanes, now), transaction=False
            )
        if not chosen.rows:
            return ClaimResult([], None), set()  # the worker is not registered
        claimed, topics = fast_claim.handed_out(self.handed, chosen.rows, worker_id, now)
        if woken:
            topics.add(Topic.WEBHOOKS)
        if chosen.locked > len(claimed.claims):
            self.lanes.forget()
            topics.add(Topic.WORK)
        times = [at for at in (claimed.next_due, chosen.next_start) if at is not None]
        return claimed._replace(next_due=min(times, default=None)), topics
