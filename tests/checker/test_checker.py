"""The checker itself: a good run passes, and for each promise there are runs that break it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from coatcheck.model.event import EventType, JobEvent
from coatcheck.model.job import Terms
from coatcheck.model.outcome import Waiting
from coatcheck.model.state import State
from coatcheck.testing.checker import (
    BEGAN,
    RETURNED,
    Effect,
    EffectLog,
    JobRecord,
    PromiseBroken,
    ReceivedWebhook,
    RunRecord,
    Submit,
    check,
    violations_of,
)

from .histories import NOW, History, eventful, run_of, with_events, with_job, with_record


def broken(run: RunRecord) -> set[str]:
    """Return which promises a run breaks."""
    return {violation.promise for violation in violations_of(run)}


def good() -> RunRecord:
    return run_of(*eventful())


def test_a_run_with_everything_in_it_keeps_every_promise() -> None:
    check(good())


def test_what_is_broken_is_told_by_promise_and_job() -> None:
    with pytest.raises(PromiseBroken, match="P3 A: its row says"):
        check(with_job(good(), "A", attempt=7))


# --- P1


def test_an_answered_submit_that_is_not_there() -> None:
    run = good()
    assert broken(dataclasses.replace(run, submits=[*run.submits, Submit("lost")])) == {"P1"}
    absent = JobRecord("default", "lost", None, False, ())
    with_absent = dataclasses.replace(run, records=[*run.records, absent])
    check(with_absent)
    submits = [*run.submits, Submit("lost")]
    assert broken(dataclasses.replace(with_absent, submits=submits)) == {"P1"}


def test_a_tombstone_answers_for_its_job_and_an_unanswered_submit_for_nothing() -> None:
    run = good()
    gone = JobRecord("default", "gone", None, True, ())
    submits = [*run.submits, Submit("gone"), Submit("unsure", answered=False)]
    check(dataclasses.replace(run, submits=submits, records=[*run.records, gone]))


def test_a_job_that_nobody_submitted() -> None:
    assert broken(dataclasses.replace(good(), submits=good().submits[1:])) == {"P1"}


def test_one_key_that_became_two_jobs() -> None:
    run = good()
    once = [Submit("A", key="k"), *run.submits[1:], Submit("", answered=False, key="k")]
    check(dataclasses.replace(run, submits=once))
    twice = [Submit("A", key="k"), Submit("B", key="k"), *run.submits[2:]]
    assert broken(dataclasses.replace(run, submits=twice)) == {"P1"}
    labelled = run
    for job_id in ("A", "B"):
        labelled = with_record(labelled, job_id, lambda r: dataclasses.replace(r, key="k"))
    assert broken(labelled) == {"P1"}


# --- P2


def test_a_job_that_ended_without_an_attempt() -> None:
    history = History("A")
    history.status = history.status._replace(
        state=State.FAILED, last_event=2, finished_at=1, expires_at=2
    )
    data = '{"state":"failed","attempt":0,"previous":"queued"}'
    history.events.append(JobEvent(2, EventType.STATE, 1, data))
    assert broken(run_of(history)) == {"P2"}


def test_a_success_whose_handler_was_never_entered() -> None:
    assert broken(dataclasses.replace(run_of(eventful()[0]), effects=[])) == {"P2"}
    check(dataclasses.replace(run_of(eventful()[0]), effects=None))


def test_a_job_left_in_the_queue_or_with_a_worker_that_is_gone() -> None:
    queued, running = run_of(History("A").claim().retry()), run_of(History("B").claim())
    assert broken(queued) == {"P2"}
    check(dataclasses.replace(queued, ended=False))
    assert broken(dataclasses.replace(running, ended=False)) == {"P2"}
    check(dataclasses.replace(running, ended=False, live_workers=["worker-1"]))


# --- P3


def drop(index: int) -> Callable[[list[JobEvent]], list[JobEvent]]:
    return lambda events: events[:index] + events[index + 1 :]


def repeat(index: int) -> Callable[[list[JobEvent]], list[JobEvent]]:
    return lambda events: [*events[: index + 1], *events[index:]]


def swap(index: int) -> Callable[[list[JobEvent]], list[JobEvent]]:
    return lambda e: [*e[:index], e[index + 1], e[index], *e[index + 2 :]]


def say_otherwise(index: int, **changes: object) -> Callable[[list[JobEvent]], list[JobEvent]]:
    def change(events: list[JobEvent]) -> list[JobEvent]:
        data = json.dumps({**json.loads(events[index].data), **changes})
        events[index] = dataclasses.replace(events[index], data=data)
        return events

    return change


def states_only(run: RunRecord, job_id: str) -> list[int]:
    [record] = [record for record in run.records if record.id == job_id]
    return [n for n, event in enumerate(record.events) if event.type is EventType.STATE]


JOBS = "ABCDEFGH"


@pytest.mark.parametrize("job_id", JOBS)
@pytest.mark.parametrize("renumber", [False, True], ids=["numbers kept", "renumbered"])
def test_every_mutation_of_a_log_is_noticed(job_id: str, renumber: bool) -> None:
    run = good()
    states = states_only(run, job_id)
    mutations: list[Callable[[list[JobEvent]], list[JobEvent]]] = []
    for index in states:
        mutations += [drop(index), repeat(index), say_otherwise(index, attempt=9)]
        mutations += [say_otherwise(index, state=state) for state in _others(run, job_id, index)]
    mutations += [swap(index) for index in states[:-1]]
    for number, mutation in enumerate(mutations):
        mutated = with_events(run, job_id, mutation, renumber=renumber)
        assert broken(mutated), f"mutation {number} of {job_id} went unnoticed"


def _others(run: RunRecord, job_id: str, index: int) -> list[State]:
    [record] = [record for record in run.records if record.id == job_id]
    said = json.loads(record.events[index].data)["state"]
    return [state for state in State if state != said]


@pytest.mark.parametrize(
    "fields",
    [
        {"state": State.FAILED},
        {"attempt": 2},
        {"last_event": 9},
        {"finished_at": None},
        {"worker": "worker-1"},
        {"result": None},
    ],
    ids=str,
)
def test_a_row_that_contradicts_its_log(fields: dict[str, object]) -> None:
    assert "P3" in broken(with_job(good(), "A", **fields))


def test_a_second_end() -> None:
    history = History("A").claim().succeed()
    data = '{"state":"failed","attempt":1,"previous":"succeeded"}'
    history.events.append(JobEvent(4, EventType.STATE, history.now, data))
    assert "P3" in broken(run_of(history))


def test_a_resumed_job_may_end_again() -> None:
    history = History("A").cancel()
    for seq, data in enumerate(
        (
            '{"state":"queued","attempt":0,"previous":"cancelled","reason":"resumed"}',
            '{"state":"running","attempt":1,"previous":"queued"}',
            '{"state":"cancelled","attempt":1,"previous":"running","reason":"cancelled"}',
        ),
        3,
    ):
        history.events.append(JobEvent(seq, EventType.STATE, history.now, data))
    history.status = history.status._replace(attempt=1, fence=1, last_event=5)
    check(run_of(history))


# --- P4


def test_a_step_may_run_until_it_is_committed_and_no_longer() -> None:
    good = History("S").claim().enter("send#0").lose().claim().enter("send#0").commit("send")
    check(run_of(good.lose().claim().succeed()))
    bad = History("S").claim().enter("send#0").commit("send").lose().claim().enter("send#0")
    assert broken(run_of(bad.succeed())) == {"P4"}
    twice = History("S").claim().enter("send#0").commit("send").enter("send#0").succeed()
    assert broken(run_of(twice)) == {"P4"}
    check(run_of(History("S").claim().enter("x#0").enter("x#0").commit("x", attempts=2).succeed()))
    other = History("S").claim().enter("send#0").commit("send").lose().claim().enter("send#1")
    check(run_of(other.commit("send", occurrence=1).succeed()))


def test_a_step_on_record_that_never_ran() -> None:
    made_up = History("S").claim().enter("a#0").commit("a").commit("b").succeed()
    assert broken(run_of(made_up)) == {"P4"}


def test_each_spawn_is_one_job() -> None:
    def child(name: str) -> History:
        return History(name, Terms(parent="S")).claim().succeed()

    parent = History("S").claim().commit("mail", op="child").succeed()
    sent = [Submit("S")]
    check(run_of(parent, child("T"), submits=sent))
    assert broken(run_of(parent, submits=sent)) == {"P4"}
    assert broken(run_of(parent, child("T"), child("U"), submits=sent)) == {"P4"}


def test_a_job_that_waited_goes_on_with_its_attempt() -> None:
    history = History("S").claim().settle(Waiting(NOW)).wake().claim()
    check(run_of(history.commit("send").succeed()))
    again = History("S").claim().settle(Waiting(NOW)).wake()
    again.status = again.status._replace(reason=None)  # a claim that counts one more
    assert "P3" in broken(run_of(again.claim().succeed()))


# --- P5


@pytest.mark.parametrize("fence", [0, 1, 2, 9])
def test_a_fence_that_does_not_follow_from_the_log(fence: int) -> None:
    assert broken(with_job(good(), "B", fence=fence)) == {"P5"}


def test_a_cancelled_run_leaves_it_open_whether_its_worker_was_lost() -> None:
    for fence, told in ((1, set[str]()), (2, set()), (3, {"P5"})):
        assert broken(with_job(good(), "F", fence=fence)) == told


def test_a_handler_that_ran_without_a_claim_or_twice_under_one() -> None:
    run = good()
    assert run.effects is not None
    unclaimed = Effect("A", 2, 2, 1, BEGAN, 1)
    twice = Effect("A", 1, 1, 1, BEGAN, 1)
    blind = Effect("A", 1, None, 1, BEGAN, 1)
    for effect, told in ((unclaimed, {"P5"}), (twice, {"P5"}), (blind, set[str]())):
        assert broken(dataclasses.replace(run, effects=[*run.effects, effect])) == told


def test_a_result_written_by_a_stale_holder() -> None:
    run = good()
    assert run.effects is not None
    late = Effect("B", 1, 1, 1, RETURNED, 9, '{"fence": 1}')
    with_late = dataclasses.replace(run, effects=[*run.effects, late])
    check(with_late)  # it returned, and that changed nothing
    assert broken(with_job(with_late, "B", result='{"fence": 1}')) == {"P5"}


def test_a_log_line_of_a_stale_holder() -> None:
    [index] = [
        n for n, event in enumerate(eventful()[1].events) if event.type is not EventType.STATE
    ]
    assert broken(with_events(good(), "B", say_otherwise(index, fence=1))) == {"P5"}
    last = good().records[0].events[1]
    said = JobEvent(5, EventType.LOG, last.at, '{"message":"too late"}')
    late = with_events(good(), "A", lambda events: [*events, said])
    assert broken(with_job(late, "A", last_event=5)) == {"P5"}


# --- P6


def test_an_orphan_that_came_back_late_or_never() -> None:
    check(run_of(History("A").claim().lose(after_ms=1_400).claim().succeed()))
    assert broken(run_of(History("A").claim().lose(after_ms=1_401).claim().succeed())) == {"P6"}
    held = History("B").claim().lose(after_ms=0)
    kept = History("B").claim()
    never = run_of(kept, orphans=held.orphans, ended=False, live_workers=["worker-1"])
    assert broken(never) == {"P6"}


# --- P7


def test_deliveries_that_are_missing_or_change_their_id() -> None:
    owed = {("A", "job.succeeded"), ("B", "job.succeeded")}
    first = ReceivedWebhook("A", "job.succeeded", "m1")
    second = ReceivedWebhook("B", "job.succeeded", "m2")
    check(run_of(*eventful(), deliveries=[first, first, second], owed_deliveries=owed))
    for wrong in (
        [first],
        [first, second, ReceivedWebhook("A", "job.succeeded", "m3")],
        [first, ReceivedWebhook("B", "job.succeeded", "m1")],
    ):
        assert broken(run_of(*eventful(), deliveries=wrong, owed_deliveries=owed)) == {"P7"}


# --- P8


def test_a_purge_that_left_something() -> None:
    job_id = "01M7GDTNAQ55VVM48585MMPRGK"
    kept = {"tombstones": [("default", job_id, 1)], "idempotency": [("default", "k", job_id)]}
    check(run_of(*eventful(), purged=[job_id], tables={**kept, "jobs": [("default", "B")]}))
    for left in (("default", job_id), ("default", "B", f'{{"parent":"{job_id}"}}')):
        tables = {**kept, "events": [left]}
        assert broken(run_of(*eventful(), purged=[job_id], tables=tables)) == {"P8"}


# --- the side-effect log


def test_the_side_effect_log_reads_back_what_was_written(tmp_path: Path) -> None:
    log = EffectLog(tmp_path / "effects")
    assert log.read() == []
    log.write("A", 1, None, BEGAN)
    log.write("A", 1, 3, RETURNED, '{"a": "b c"}')
    first, second = log.read()
    assert (first.job_id, first.attempt, first.fence, first.value) == ("A", 1, None, "")
    assert (second.fence, second.what, second.value) == (3, RETURNED, '{"a": "b c"}')
    assert first.at <= second.at
