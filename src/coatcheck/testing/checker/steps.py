"""Checks for P4: a recorded step never runs again.

The log shows which claim wrote a step. The bodies of steps record, outside the store, under which
claim they ran.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from coatcheck.model.step import Op, StepState
from coatcheck.testing.checker.effects import RAN
from coatcheck.testing.checker.promises import Replays, Violation
from coatcheck.testing.checker.run import RunRecord


def steps_run_once(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P4: a recorded step ran, and did not run again once recorded.

    No body is entered under a later claim than the one that wrote its step, nor more often under
    that claim than the step's attempts.
    """
    ran: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
    for effect in run.effects or ():
        if effect.what == RAN and effect.fence is not None:
            ran[effect.job_id][effect.value, effect.fence] += 1
    for job_id, bodies in ran.items():
        seen = replays.get(job_id)
        for step in seen.steps if seen is not None else ():
            if step.op != Op.STEP or step.state != StepState.SUCCEEDED:
                continue
            times = {
                fence: count for (label, fence), count in bodies.items() if label == step.label
            }
            if not times:
                yield Violation("P4", job_id, f"step {step.label} is on record, and never ran")
            if late := [fence for fence in times if fence > step.fence]:
                what = f"step {step.label} was committed under fence {step.fence}"
                yield Violation("P4", job_id, f"{what}, and ran again under {late}")
            if times.get(step.fence, 0) > step.attempts:
                what = f"step {step.label} ran {times[step.fence]} times under one claim"
                yield Violation("P4", job_id, f"{what}, which says {step.attempts}")


def spawned_once(run: RunRecord, replays: Replays) -> Iterator[Violation]:
    """Check P4: each recorded spawn is one job, and each child has a recorded spawn."""
    children: Counter[str] = Counter()
    for record in run.records:
        if record.job is not None and record.job.terms.parent is not None:
            children[record.job.terms.parent] += 1
    for record in run.records:
        if record.job is None:
            continue
        spawned = {step.seq for step in replays[record.id].steps if step.op == Op.CHILD}
        if children[record.id] != len(spawned):
            what = f"{children[record.id]} jobs are its children, and it spawned {len(spawned)}"
            yield Violation("P4", record.id, what)
