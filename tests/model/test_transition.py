"""Each thing that can happen to a job, in each state it can be in."""

import json
from typing import Any

import pytest

from coatcheck.errors import IllegalTransition
from coatcheck.model import transition as rules
from coatcheck.model.job import Failure, Terms
from coatcheck.model.outcome import (
    Cancelled,
    Errored,
    GaveUp,
    Outcome,
    Released,
    Succeeded,
    Waiting,
)
from coatcheck.model.state import MOVES, Reason, State
from coatcheck.model.transition import JobStatus, Transition

NOW = 1_000_000
BOOM = Failure("boom", "it broke")
EARLIER = Failure("earlier", "it broke before")
TERMS = Terms(max_attempts=3, keep_succeeded_ms=10, keep_failed_ms=20)
OUTCOMES: list[Outcome] = [
    Succeeded("1"),
    Errored(BOOM, 0),
    Errored(BOOM, 500),
    GaveUp(BOOM),
    Released(),
    Released(500, BOOM),
    Cancelled(),
]


def running(**changes: Any) -> JobStatus:
    """A job in the hands of a worker, in its first attempt."""
    status = rules.claimed(rules.created(NOW, NOW).status, "worker-1", NOW).status
    return status._replace(**changes)


def in_state(state: State, **changes: Any) -> JobStatus:
    return running(state=state, **changes)


def test_a_life_in_three_steps() -> None:
    queued = rules.created(run_at=NOW, now=NOW)
    taken = rules.claimed(queued.status, "worker-1", NOW + 1)
    done = rules.settled(taken.status, TERMS, Succeeded("1"), NOW + 2)
    steps = [queued, taken, done]
    assert [step.status.state for step in steps] == ["queued", "running", "succeeded"]
    assert [step.status.last_event for step in steps] == [1, 2, 3]
    assert [json.loads(step.event) for step in steps] == [
        {"state": "queued", "attempt": 0},
        {"state": "running", "attempt": 1, "previous": "queued"},
        {"state": "succeeded", "attempt": 1, "previous": "running"},
    ]


@pytest.mark.parametrize(("run_at", "claimable"), [(NOW - 1, True), (NOW, True), (NOW + 1, False)])
def test_a_new_job_is_claimable_unless_it_is_for_later(run_at: int, claimable: bool) -> None:
    status = rules.created(run_at, NOW).status
    assert (status.claimable, status.run_at) == (claimable, run_at)
    assert (status.attempt, status.fence, status.worker) == (0, 0, None)


def test_a_claim_adds_an_attempt_and_raises_the_fence() -> None:
    again = in_state(State.QUEUED, attempt=1, fence=4, reason=Reason.RETRY, error=BOOM)
    taken = rules.claimed(again, "worker-2", NOW + 9).status
    assert (taken.attempt, taken.fence, taken.worker) == (2, 5, "worker-2")
    assert (taken.started_at, taken.claimable, taken.reason) == (NOW + 9, False, None)
    assert taken.error == BOOM


@pytest.mark.parametrize("state", [state for state in State if state is not State.QUEUED])
def test_only_a_queued_job_can_be_claimed(state: State) -> None:
    with pytest.raises(IllegalTransition):
        rules.claimed(in_state(state), "worker-2", NOW)


# --- settled


def settle(outcome: Outcome, terms: Terms = TERMS, **changes: Any) -> JobStatus:
    return rules.settled(running(**changes), terms, outcome, NOW).status


def test_success() -> None:
    done = settle(Succeeded("1"), error=EARLIER, phase="working")
    assert (done.state, done.reason, done.error) == (State.SUCCEEDED, None, None)
    assert (done.finished_at, done.expires_at) == (NOW, NOW + TERMS.keep_succeeded_ms)
    assert (done.worker, done.phase, done.claimable) == (None, None, False)


def test_a_failed_attempt_with_attempts_left_is_queued_again() -> None:
    later = settle(Errored(BOOM, retry_after_ms=500))
    assert (later.state, later.reason, later.error) == (State.QUEUED, Reason.RETRY, BOOM)
    assert (later.run_at, later.claimable, later.attempt) == (NOW + 500, False, 1)
    assert (later.worker, later.finished_at, later.expires_at) == (None, None, None)
    assert settle(Errored(BOOM, retry_after_ms=0)).claimable


@pytest.mark.parametrize(("attempt", "state"), [(2, State.QUEUED), (3, State.FAILED)])
def test_the_last_attempt_fails_the_job(attempt: int, state: State) -> None:
    ended = settle(Errored(BOOM, 0, Reason.TIMEOUT), attempt=attempt)
    assert ended.state is state
    assert ended.reason is (Reason.TIMEOUT if state is State.FAILED else Reason.RETRY)


@pytest.mark.parametrize(("delay", "state"), [(99, State.QUEUED), (100, State.FAILED)])
def test_a_retry_must_begin_before_the_deadline(delay: int, state: State) -> None:
    terms = TERMS._replace(deadline_at=NOW + 100)
    assert settle(Errored(BOOM, delay), terms).state is state


def test_giving_up_fails_whatever_attempts_are_left() -> None:
    ended = settle(GaveUp(BOOM, Reason.TIMEOUT))
    assert (ended.state, ended.reason, ended.error) == (State.FAILED, Reason.TIMEOUT, BOOM)
    assert ended.expires_at == NOW + TERMS.keep_failed_ms


def test_a_release_takes_the_attempt_back_but_not_the_fence() -> None:
    released = settle(Released(retry_after_ms=7), attempt=2, fence=5, error=EARLIER)
    assert (released.state, released.reason) == (State.QUEUED, Reason.RELEASED)
    assert (released.attempt, released.fence, released.run_at) == (1, 5, NOW + 7)
    assert released.error == EARLIER
    assert settle(Released(error=BOOM), error=EARLIER).error == BOOM


def test_a_handler_that_stops_ends_as_cancelled() -> None:
    ended = settle(Cancelled())
    assert (ended.state, ended.reason) == (State.CANCELLED, Reason.CANCELLED)
    assert ended.expires_at == NOW + TERMS.keep_failed_ms


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Succeeded("1"), State.SUCCEEDED),
        (GaveUp(BOOM), State.FAILED),
        (Errored(BOOM, 0), State.CANCELLED),
        (Released(), State.CANCELLED),
        (Cancelled(), State.CANCELLED),
    ],
)
def test_who_wins_when_a_cancel_races_the_end(outcome: Outcome, state: State) -> None:
    assert settle(outcome, cancel_requested=True).state is state


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
def test_settling_never_makes_a_move_the_table_does_not_have(
    state: State, outcome: Outcome
) -> None:
    # Stores settle running jobs only. Should one ever ask for another, it is refused, or it is a
    # move the table has for another reason: a queued job may be cancelled, a failed one resumed.
    try:
        moved = rules.settled(in_state(state), TERMS, outcome, NOW).status.state
    except IllegalTransition:
        return
    assert moved in MOVES[state]


# --- lost, cancelled, expired


@pytest.mark.parametrize("on_lost", ["requeue", "resume"])
def test_a_lost_job_is_queued_again_and_its_lease_is_void(on_lost: str) -> None:
    back = changed(rules.lost(running(fence=4), TERMS._replace(on_lost=on_lost), NOW + 5))
    assert (back.state, back.reason, back.worker) == (State.QUEUED, Reason.LOST, None)
    assert (back.fence, back.attempt) == (5, 1)
    assert (back.run_at, back.claimable) == (NOW + 5, True)


@pytest.mark.parametrize(
    ("terms", "attempt"),
    [(TERMS, 3), (TERMS._replace(on_lost="fail"), 1), (TERMS._replace(max_attempts=1), 1)],
)
def test_a_lost_job_fails_where_it_may_not_run_again(terms: Terms, attempt: int) -> None:
    ended = changed(rules.lost(running(attempt=attempt), terms, NOW))
    assert (ended.state, ended.reason, ended.fence) == (State.FAILED, Reason.LOST, 2)
    assert ended.error is not None
    assert ended.error.code == "lost"
    assert f"attempt {attempt} of {terms.max_attempts}" in ended.error.message


def test_a_lost_job_that_was_to_be_cancelled_is_cancelled() -> None:
    ended = changed(rules.lost(running(cancel_requested=True), TERMS, NOW))
    assert (ended.state, ended.fence) == (State.CANCELLED, 2)


def test_asking_a_running_job_to_stop_is_a_flag_and_an_event() -> None:
    before = running()
    step = rules.request_cancel(before, TERMS, NOW)
    assert step is not None
    assert step.status == before._replace(cancel_requested=True, last_event=3)
    assert json.loads(step.event) == {"state": "running", "attempt": 1, "cancel_requested": True}


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
def test_a_job_nobody_runs_is_cancelled_at_once(state: State) -> None:
    before = in_state(state, worker=None, error=EARLIER, claimable=True)
    ended = changed(rules.request_cancel(before, TERMS, NOW))
    assert (ended.state, ended.reason, ended.error) == (State.CANCELLED, Reason.CANCELLED, EARLIER)
    assert (ended.claimable, ended.finished_at) == (False, NOW)


@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
def test_a_job_nobody_runs_expires_at_its_deadline(state: State) -> None:
    terms = TERMS._replace(deadline_at=NOW)
    assert rules.expired(in_state(state), terms, NOW - 1) is None
    ended = changed(rules.expired(in_state(state), terms, NOW))
    assert (ended.state, ended.reason) == (State.FAILED, Reason.EXPIRED)
    assert ended.error is not None
    assert ended.error.code == "expired"


def test_without_a_deadline_nothing_expires() -> None:
    assert rules.expired(in_state(State.QUEUED), TERMS, 10**15) is None


def test_a_running_job_is_taken_from_a_worker_that_does_not_keep_its_deadline() -> None:
    terms, late = TERMS._replace(deadline_at=NOW), NOW + rules.OVERRUN_MS
    status = running()
    assert rules.overran(status, terms, late - 1) is None
    assert rules.overran(status, TERMS, 10**15) is None
    ended = changed(rules.overran(status, terms, late))
    assert (ended.state, ended.reason, ended.worker) == (State.FAILED, Reason.TIMEOUT, None)
    assert ended.fence == status.fence + 1
    stopped = changed(rules.overran(running(cancel_requested=True), terms, late))
    assert (stopped.state, stopped.fence) == (State.CANCELLED, status.fence + 1)


def changed(step: Transition | None) -> JobStatus:
    assert step is not None
    return step.status


@pytest.mark.parametrize("state", list(State))
def test_who_holds_no_fence_moves_a_job_only_from_certain_states(state: State) -> None:
    status, terms = in_state(state), TERMS._replace(deadline_at=NOW)
    moves = {
        "lost": rules.lost(status, terms, NOW),
        "cancel": rules.request_cancel(status, terms, NOW),
        "expired": rules.expired(status, terms, NOW),
        "overran": rules.overran(status, terms, NOW + rules.OVERRUN_MS),
    }
    may = {name for name, step in moves.items() if step is not None}
    assert may == {
        State.QUEUED: {"cancel", "expired"},
        State.WAITING: {"cancel", "expired"},
        State.RUNNING: {"lost", "cancel", "overran"},
    }.get(state, set())


def test_a_second_request_to_cancel_is_nothing() -> None:
    assert rules.request_cancel(running(cancel_requested=True), TERMS, NOW) is None


# --- what holds for all of them


def every_step() -> list[tuple[JobStatus, Transition]]:
    """Every move there is, from a status with something to lose in each field."""
    origin = running(phase="working", error=EARLIER, last_event=7, fence=3)
    queued = in_state(State.QUEUED, worker=None, last_event=7, fence=3)
    deadline = TERMS._replace(deadline_at=NOW)
    steps = [(queued, rules.claimed(queued, "worker-2", NOW))]
    for asked in (False, True):
        held = origin._replace(cancel_requested=asked)
        steps += [(held, rules.settled(held, TERMS, outcome, NOW)) for outcome in OUTCOMES]
    for before, step in (
        (origin, rules.lost(origin, TERMS, NOW)),
        (origin, rules.request_cancel(origin, TERMS, NOW)),
        (queued, rules.request_cancel(queued, TERMS, NOW)),
        (queued, rules.expired(queued, deadline, NOW)),
    ):
        assert step is not None
        steps.append((before, step))
    return steps


@pytest.mark.parametrize(("before", "step"), every_step())
def test_every_step_is_one_event_that_tells_of_it(before: JobStatus, step: Transition) -> None:
    after, event = step.status, json.loads(step.event)
    assert after.last_event == before.last_event + 1
    assert after.fence >= before.fence
    assert event["state"] == after.state
    assert event["attempt"] == after.attempt
    assert event.get("reason") == after.reason
    assert ("error" in event) == (after.state is State.FAILED)
    if before.state is not after.state:
        assert after.state in MOVES[before.state]
        assert event["previous"] == before.state


@pytest.mark.parametrize(("before", "step"), every_step())
def test_a_standing_is_consistent(before: JobStatus, step: Transition) -> None:
    after = step.status
    assert (after.worker is not None) == (after.state is State.RUNNING)
    assert (after.finished_at is not None) == after.state.is_terminal
    assert (after.expires_at is not None) == after.state.is_terminal
    assert not after.claimable or (after.state is State.QUEUED and after.run_at <= NOW)
    assert after.phase is None or after.state is State.RUNNING


def test_an_event_tells_the_code_of_an_error_and_not_its_words() -> None:
    step = rules.settled(running(), TERMS, GaveUp(Failure("bad", "secret", "secret")), NOW)
    assert json.loads(step.event)["error"] == {"code": "bad"}
    assert "secret" not in step.event


def test_a_job_cannot_wait_for_a_group_that_names_nothing() -> None:
    with pytest.raises(ValueError, match="names nothing"):
        Waiting(None, (("job:1",), ()))
