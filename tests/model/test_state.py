import itertools

import pytest

from coatcheck.errors import Conflict, IllegalTransition
from coatcheck.model.state import MOVES, TERMINAL, Reason, State, check_move

# Written out again, from the contract: what the table in the code must say.
ALLOWED = {
    ("queued", "running"),
    ("queued", "cancelled"),
    ("queued", "failed"),
    ("running", "succeeded"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("running", "waiting"),
    ("running", "queued"),
    ("waiting", "queued"),
    ("waiting", "cancelled"),
    ("waiting", "failed"),
    ("failed", "queued"),
    ("cancelled", "queued"),
}


def test_a_job_is_queued_then_runs_then_succeeds() -> None:
    check_move(State.QUEUED, State.RUNNING)
    check_move(State.RUNNING, State.SUCCEEDED)


def test_success_is_final() -> None:
    with pytest.raises(IllegalTransition, match=r"a succeeded job cannot become queued.*final"):
        check_move(State.SUCCEEDED, State.QUEUED)


@pytest.mark.parametrize(("origin", "target"), list(itertools.product(State, State)))
def test_every_move_is_allowed_or_refused(origin: State, target: State) -> None:
    if (origin, target) in ALLOWED:
        check_move(origin, target)
    else:
        with pytest.raises(IllegalTransition) as caught:
            check_move(origin, target)
        assert isinstance(caught.value, Conflict)
        for name in MOVES[origin]:
            assert name in str(caught.value)


def test_three_states_are_the_end() -> None:
    assert {state for state in State if state.is_terminal} == TERMINAL
    assert {"succeeded", "failed", "cancelled"} == TERMINAL


def test_states_and_reasons_are_their_own_words() -> None:
    assert f"{State.QUEUED}" == "queued"
    assert State("waiting") is State.WAITING
    assert f"{Reason.TIMEOUT}" == "timeout"
