"""Hypothesis strategies for random histories: a small set of jobs, reports and outcomes."""

from __future__ import annotations

from hypothesis import strategies as st

from coatcheck.model.artifact import SmallFile, small_file
from coatcheck.model.event import EventType, NewJobEvent
from coatcheck.model.job import Failure, Lease, Progress
from coatcheck.model.limit import Limit
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.model.state import Reason
from coatcheck.model.step import Op, Step, StepId, StepState
from coatcheck.store.base import Report

START = 1_700_000_000_000
TENANTS = ("default", "acme", "umbrella")
KINDS = ("mail", "chart")
QUEUES = ("default", "slow")
LIMITS = {"mail": Limit(1, by_key=True), "chart": Limit(2)}
# Three steps, each in every state; a history may use them in any order.
STEPS = [
    Step(
        seq,
        StepId(Op.STEP, f"step-{seq}", "k" if seq else None, 0),
        state,
        START + attempts,
        attempts=attempts,
        result="1" if state is StepState.SUCCEEDED else None,
        wake_at=START if state is StepState.WAITING else None,
    )
    for seq in range(3)
    for attempts, state in enumerate(StepState)
]

NOBODYS = Lease("", "", 0)


def leave(lease: Lease, name: str) -> SmallFile:
    """Return an artifact of a job, or of `NOBODYS` if the job is not known yet."""
    return small_file((lease.tenant, lease.job_id), name, "text/plain", name.encode(), START)


_failures = st.sampled_from([Failure("boom", "it broke"), Failure("other", "x", '{"a":1}', True)])
_delays = st.sampled_from([0, 1, 40, 3_000])
_successes = st.builds(Succeeded, st.sampled_from(["1", '"zwei"']))
_defeats = st.builds(GaveUp, _failures)
ENDS: st.SearchStrategy[Succeeded | GaveUp] = st.one_of(_successes, _defeats)
OUTCOMES: st.SearchStrategy[Outcome] = st.one_of(
    _successes,
    st.builds(Errored, _failures, _delays, st.sampled_from([Reason.ERROR, Reason.TIMEOUT])),
    _defeats,
    st.builds(Released, _delays, st.none() | _failures),
    st.just(Cancelled()),
    st.builds(Waiting, _delays),  # relative to now: see _settle
)
REPORTS = st.builds(
    Report,
    st.none() | st.builds(Progress, st.integers(0, 9), st.none() | st.just(9), st.just("on")),
    st.none() | st.sampled_from(["loading", "working"]),
    st.lists(st.just(NewJobEvent(EventType.LOG, "{}")), max_size=2).map(tuple),
    st.lists(st.sampled_from(STEPS), max_size=2, unique_by=lambda step: step.seq).map(tuple),
    st.just(()),
    st.sampled_from([(), (), (), ("a.txt",), ("a.txt", "b.txt")]).map(
        lambda names: tuple(leave(NOBODYS, name) for name in names)
    ),
)
# A job without its id, with times relative to now. Values that come first are drawn most often, so
# most jobs are plain and most histories make progress.
DRAFTS = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(TENANTS),
        "kind": st.sampled_from(KINDS),
        "queue": st.sampled_from(QUEUES),
        "priority": st.integers(-1, 1),
        "public_id": st.sampled_from([None, None, None, None, "r_1", "r_2"]),
        "delay": st.sampled_from([0, 0, 0, -5, 30, 2_000]),
        "deadline": st.sampled_from([None, None, None, 10, 1_000]),
        "attempts": st.sampled_from([3, 2, 1]),
        "on_lost": st.sampled_from(["requeue", "resume", "fail"]),
        "keep": st.sampled_from([10**10, 500, 1]),
        "limit_key": st.sampled_from([None, None, "a", "b"]),
    }
)
