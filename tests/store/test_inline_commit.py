"""When a loop may do a whole turn: not for a while after one that was slow."""

import itertools
from unittest.mock import patch

from coatcheck.store.sqlite.database.inline_commit import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    QUICK_SECONDS,
    InlineCommitPolicy,
)

SLOW = 2 * QUICK_SECONDS


def may_at(policy: InlineCommitPolicy, moment: float) -> bool:
    with patch("time.monotonic", return_value=moment):
        return policy.allows()


def test_quick_turns_go_on() -> None:
    policy = InlineCommitPolicy()
    policy.record(10.0, 10.0 + QUICK_SECONDS / 2)
    assert may_at(policy, 10.0 + QUICK_SECONDS / 2)


def test_a_slow_one_is_followed_by_a_pause_that_grows_with_each() -> None:
    policy, now, pauses = InlineCommitPolicy(), 10.0, []
    for _ in range(8):
        policy.record(now, now + SLOW)
        now += SLOW
        assert not may_at(policy, now)
        pauses.append(policy._again_at - now)
        now = policy._again_at
        assert may_at(policy, now)
    assert round(pauses[0], 6) == FIRST_PAUSE_SECONDS
    assert all(later >= earlier - 1e-9 for earlier, later in itertools.pairwise(pauses))
    assert round(pauses[-1], 6) == LONGEST_PAUSE_SECONDS


def test_a_quick_one_makes_the_next_pause_short_again() -> None:
    policy = InlineCommitPolicy()
    for moment in (10.0, 20.0, 30.0):
        policy.record(moment, moment + SLOW)
    policy.record(40.0, 40.0 + QUICK_SECONDS / 2)
    policy.record(50.0, 50.0 + SLOW)
    assert may_at(policy, 50.0 + SLOW + FIRST_PAUSE_SECONDS + 1e-6)
