"""Random histories of schedules, a part of the state machine.

Several actors create, change, fire and delete schedules that they have read at different times.
Only an actor that has read the latest revision changes anything.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    multiple,
    rule,
)

from coatcheck.model.job import JobInsert
from coatcheck.model.schedule import Schedule, ScheduleDefinition, Timing
from coatcheck.store.base import Store
from coatcheck.store.schedules import DueSchedules, ScheduleFiring
from coatcheck.testing.expected import ExpectedStore, Key
from coatcheck.testing.random_draws import DRAFTS, KINDS, TENANTS

T = TypeVar("T")

_dues = st.sampled_from([None, 0, -5, 40])


class ScheduleRules(RuleBasedStateMachine):
    """Random histories of a store's schedules."""

    store: Store
    expected: ExpectedStore
    now: int
    schedules: Bundle[Schedule] = Bundle("schedules")
    _revisions = 0

    @abstractmethod
    def _do(self, deed: Coroutine[Any, Any, T]) -> T: ...

    @abstractmethod
    def _job(self, draft: dict[str, Any]) -> JobInsert: ...

    def _revision(self) -> str:
        self._revisions += 1
        return f"r{self._revisions}"

    def _due(self, due: int | None) -> int | None:
        return None if due is None else self.now + due

    @rule(
        target=schedules,
        tenant=st.sampled_from(TENANTS),
        name=st.sampled_from(["nightly", "often"]),
        kind=st.sampled_from(KINDS),
        due=_dues,
    )
    def make_schedule(
        self, tenant: str, name: str, kind: str, due: int | None
    ) -> Schedule | MultipleResults[Schedule]:
        """Create a schedule, which may already exist."""
        schedule = Schedule(
            tenant=tenant,
            definition=ScheduleDefinition(name, kind, Timing(every_ms=60_000)),
            declared=False,
            revision=self._revision(),
            paused=False,
            next_at=self._due(due),
            last_at=None,
            last_job=None,
            problem=None,
            created_at=self.now,
            updated_at=self.now,
        )
        made = self._do(self.store.schedules.put_schedule(schedule, None))
        assert made is ((tenant, name) not in self.expected.schedules)
        if made:
            self.expected.schedules[tenant, name] = schedule
        self._compare_schedules()
        return schedule if made else multiple()

    @rule(target=schedules, seen=schedules, due=_dues, paused=st.booleans())
    def change_schedule(
        self, seen: Schedule, due: int | None, paused: bool
    ) -> Schedule | MultipleResults[Schedule]:
        """Change a schedule, based on its latest or an outdated revision."""
        changed = replace(
            seen,
            revision=self._revision(),
            next_at=self._due(due),
            paused=paused,
            updated_at=self.now,
        )
        written = self._do(self.store.schedules.put_schedule(changed, seen.revision))
        assert written is self.expected.is_newest(seen)
        if written:
            self.expected.schedules[seen.tenant, seen.name] = changed
        self._compare_schedules()
        return changed if written else multiple()

    @rule(
        target=schedules,
        seen=schedules,
        wanted=st.lists(DRAFTS, max_size=2),
        due=_dues,
        unless_running=st.booleans(),
    )
    def fire_schedule(
        self,
        seen: Schedule,
        wanted: list[dict[str, Any]],
        due: int | None,
        unless_running: bool,
    ) -> Schedule | MultipleResults[Schedule]:
        """Fire a schedule, based on its latest or an outdated revision."""
        own = {"tenant": seen.tenant, "public_id": None}
        jobs = tuple(self._job({**draft, **own}) for draft in wanted)
        last_at = self.now if jobs else None
        firing = ScheduleFiring(
            seen, self._revision(), jobs, self._due(due), last_at, unless_running=unless_running
        )
        made = self._do(self.store.schedules.fire_schedule(firing, self.now))
        assert made == self.expected.fire(firing, self.now)
        self._compare_schedules()
        return multiple() if made is None else self.expected.schedules[seen.tenant, seen.name]

    @rule(seen=schedules)
    def delete_schedule(self, seen: Schedule) -> None:
        """Delete a schedule, which may already be gone."""
        key: Key = (seen.tenant, seen.name)
        deleted = self._do(self.store.schedules.delete_schedule(*key))
        assert deleted is (self.expected.schedules.pop(key, None) is not None)
        self._compare_schedules()

    def _compare_schedules(self) -> None:
        """Compare all schedules, and those that are due, with the expected ones."""
        there = sorted(self.expected.schedules.values(), key=lambda one: (one.tenant, one.name))
        for tenant in TENANTS:
            own = [one for one in there if one.tenant == tenant]
            assert self._do(self.store.schedules.list_schedules(tenant)) == own
        of_kind = [one for one in there if one.definition.kind == KINDS[0]]
        ticks = [(one.next_at, one) for one in of_kind if one.next_at is not None]
        ticks.sort(key=lambda pair: pair[0])
        later = [tick for tick, _ in ticks if tick > self.now]
        assert self._do(
            self.store.schedules.list_due_schedules(KINDS[:1], self.now, 10)
        ) == DueSchedules(
            [one for tick, one in ticks if tick <= self.now], min(later, default=None)
        )
