"""What a fork knows of the events that were sent to the job it was forked from."""

from __future__ import annotations

from dataclasses import replace

from coatcheck.model.step import Message, Op, Step, StepId, StepState
from coatcheck.store.base import Report, Store
from coatcheck.testing.conformance.arrange import NOW, TENANT, Conformance, new_job


class ForkedEventConformance(Conformance):
    """Tests of the messages of a fork."""

    async def test_a_fork_has_the_messages_that_its_steps_have_taken(
        self, store: Store, worker: str
    ) -> None:
        """The others were for the original; what the fork is sent next is the next it waits for."""
        job = new_job("mail")
        await store.submit(job, NOW)
        [claim] = (await store.claim(worker, ["mail"], 1, NOW)).claims
        for name, data in (("a", "1"), ("a", "2"), ("a", "3"), ("b", "4")):
            await store.send(TENANT, job.id, name, data, NOW)
        done = Step(0, StepId(Op.EVENT, "a", None, 0), StepState.SUCCEEDED, NOW, NOW, result="1")
        late = replace(done, seq=1, id=StepId(Op.EVENT, "b", None, 0), state=StepState.FAILED)
        late = replace(late, survived=True)
        plain = replace(done, seq=2, id=StepId(Op.STEP, "a", None, 0))
        again = replace(done, seq=3, id=StepId(Op.EVENT, "a", None, 1), result="2")
        report = Report(steps=(done, late, plain, again))
        assert await store.report(claim.lease, report, NOW)

        fork = new_job("mail", forked_from=job.id)
        await store.fork(job.id, 3, fork, NOW + 1)
        assert await store.messages(TENANT, fork.id) == [Message("a", 0, "1", NOW)]

        await store.send(TENANT, fork.id, "a", "5", NOW + 2)
        await store.send(TENANT, fork.id, "b", "6", NOW + 2)
        assert await store.messages(TENANT, fork.id) == [
            Message("a", 0, "1", NOW),
            Message("a", 1, "5", NOW + 2),
            Message("b", 0, "6", NOW + 2),
        ]
