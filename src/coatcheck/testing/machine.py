"""State machine that drives a store through random histories and checks it after each step.

    class MyMachine(StoreMachine):
        def new_store(self) -> Store:
            return MyStore(...)  # empty, and not opened yet

    TestMyMachine = MyMachine.TestCase

Hypothesis generates the histories (several tenants, kinds, queues and workers; stale leases; jobs
that wait, spawn others and are resumed; time that passes) and shrinks a failing one to the few
steps that matter. `coatcheck.testing.expected` computes the expected contents independently.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, rule

from coatcheck.errors import Conflict, NotFound
from coatcheck.model.job import JobInsert, Lease
from coatcheck.model.outcome import Waiting
from coatcheck.model.step import child_finished, event_sent
from coatcheck.store.base import Report, Settlement
from coatcheck.testing.expected import ENDED, Key
from coatcheck.testing.plain_machine import PlainMachine
from coatcheck.testing.random_draws import DRAFTS, KINDS

_untils = st.sampled_from([None, None, 40, 3_000])


class StoreMachine(PlainMachine):
    """Random histories of plain jobs, and of jobs that wait, spawn others and are resumed."""

    @rule(target=PlainMachine.jobs, lease=PlainMachine.leases, drafts=st.lists(DRAFTS, max_size=3))
    def spawn(self, lease: Lease, drafts: list[dict[str, Any]]) -> MultipleResults[Key]:
        """Spawn children with a current or a stale lease."""
        children = [self._child(lease, draft) for draft in drafts]
        report = Report(children=tuple(children))
        reported = self._do(self.store.workers.report(lease, report, self.now))
        assert reported is self.expected.report(lease, report, self.now)
        return multiple(*((child.tenant, child.id) for child in children if reported))

    @rule(
        target=PlainMachine.jobs,
        worker=PlainMachine.workers,
        drafts=st.lists(DRAFTS, min_size=1, max_size=3),
        until=_untils,
    )
    def spawn_and_wait(
        self, worker: str, drafts: list[dict[str, Any]], until: int | None
    ) -> MultipleResults[Key]:
        """Claim a job that spawns children and waits for all of them, in one write."""
        taken = self._claim(worker, KINDS, 1).values
        if not taken:
            return multiple()
        lease = taken[0]
        children = tuple(self._child(lease, draft) for draft in drafts)
        group = tuple(child_finished(child.id) for child in children)
        self._settle([Settlement(lease, Waiting(until, (group,)), Report(children=children))])
        return multiple(*((child.tenant, child.id) for child in children))

    @rule(lease=PlainMachine.leases, until=_untils, apart=st.booleans())
    def wait_for_children(self, lease: Lease, until: int | None, apart: bool) -> None:
        """Wait for all children of a job, or for any one."""
        key = (lease.tenant, lease.job_id)
        names = [child_finished(child.new.id) for child in self.expected.children_of(key)]
        groups = [(name,) for name in names] if apart else [tuple(names)] if names else []
        self._settle([Settlement(lease, Waiting(until, tuple(groups)))])

    @rule(lease=PlainMachine.leases, until=_untils, number=st.integers(0, 1))
    def wait_for_an_event(self, lease: Lease, until: int | None, number: int) -> None:
        """Wait for an event, which may already have been sent."""
        group = (event_sent("go", number),)
        self._settle([Settlement(lease, Waiting(until, (group,)))])

    @rule(key=PlainMachine.jobs, name=st.sampled_from(["go", "go", "stop"]))
    def send(self, key: Key, name: str) -> None:
        """Send an event to a job, which may be finished or gone."""
        job = self.expected.jobs.get(key)
        try:
            sent = self._do(self.store.jobs.send_event(*key, name, "1", self.now))
        except Conflict:
            assert job is not None
            assert job.state in ENDED
        except NotFound:
            assert job is None
        else:
            assert job is not None
            self.expected.send(key, name, "1", self.now)
            assert sent.state == job.state

    @rule(key=PlainMachine.jobs)
    def resume(self, key: Key) -> None:
        """Resume a job in any state."""
        if key in self.expected.jobs:
            self.expected.resume(key, self.now)
            job = self._do(self.store.jobs.resume(*key, self.now))
            assert job.state == self.expected.jobs[key].state
            if job.state not in ENDED:
                self._seen.pop(key, None)  # a resumed job may leave its final state

    def _child(self, lease: Lease, draft: dict[str, Any]) -> JobInsert:
        child = self._job({**draft, "tenant": lease.tenant, "public_id": None})
        return child._replace(terms=child.terms._replace(parent=lease.job_id))
