"""How many jobs a worker claims, depending on how long recent jobs took."""

from __future__ import annotations

from coatcheck.worker.slots.prefetch import AHEAD_S, MOST_AHEAD, RECENT_S, SHORT_S, Prefetch

SLOTS = 16


def when_all_are_free(prefetch: Prefetch) -> int:
    return prefetch.limit(free=SLOTS, moving=SLOTS, waiting=0, now=1.0)


def when_all_are_busy(prefetch: Prefetch) -> int:
    return prefetch.limit(free=0, moving=SLOTS, waiting=0, now=1.0)


def learnt(*seconds: float, brought: int = 1_000) -> Prefetch:
    """Return an estimate after jobs of these durations, just after a claim that returned this
    many.
    """
    prefetch = Prefetch()
    for each in seconds:
        prefetch.record_run(each)
    prefetch.record_claim(brought, 1.0)
    return prefetch


def test_nothing_is_prefetched_before_a_job_has_finished() -> None:
    for seen in range(10):
        prefetch = learnt(*[0.0] * seen)
        assert when_all_are_free(prefetch) == SLOTS
        assert when_all_are_busy(prefetch) == 0


def test_short_jobs_are_prefetched_up_to_a_limit() -> None:
    prefetch = learnt(*[0.0001] * 1000)
    assert when_all_are_busy(prefetch) == MOST_AHEAD
    assert when_all_are_free(prefetch) == SLOTS + MOST_AHEAD


def test_prefetched_jobs_finish_within_the_bound() -> None:
    prefetch = learnt(*[0.004] * 1000)
    ahead = when_all_are_busy(prefetch)
    assert SLOTS < ahead < MOST_AHEAD
    assert ahead * 0.004 / SLOTS <= AHEAD_S


def test_jobs_that_are_not_short_are_never_prefetched() -> None:
    for seconds in (SHORT_S * 1.01, 0.010, 1.0, 3600.0):
        prefetch = learnt(*[seconds] * 10_000)
        assert when_all_are_free(prefetch) == SLOTS
        assert when_all_are_busy(prefetch) == 0


def test_a_long_job_among_short_ones_is_remembered_for_a_while() -> None:
    prefetch = learnt(*[0.0001] * 1000, 1.0)
    assert when_all_are_busy(prefetch) == 0
    for _ in range(100):
        prefetch.record_run(0.0001)
    assert when_all_are_busy(prefetch) == 0
    for _ in range(200):
        prefetch.record_run(0.0001)
    assert when_all_are_busy(prefetch) > 0


def test_one_long_job_in_twenty_prevents_prefetching() -> None:
    prefetch = learnt()
    for number in range(1000):
        prefetch.record_run(0.5 if number % 20 == 0 else 0.0001)
        assert when_all_are_free(prefetch) == SLOTS


def test_slots_that_are_held_for_long_do_not_count() -> None:
    prefetch = learnt(*[0.002] * 1000)
    one = prefetch.limit(free=0, moving=1, waiting=0, now=1.0)
    assert 0 < one <= AHEAD_S / 0.002
    assert prefetch.limit(free=0, moving=0, waiting=0, now=1.0) == 0


def test_a_release_resets_the_estimate() -> None:
    prefetch = learnt(*[0.0001] * 1000)
    prefetch.record_release()
    assert when_all_are_busy(prefetch) == 0
    for _ in range(50):
        prefetch.record_run(0.0001)
    assert when_all_are_busy(prefetch) == 0


def test_claims_are_large_or_not_made() -> None:
    prefetch = learnt(*[0.0001] * 1000)
    half = MOST_AHEAD // 2
    assert prefetch.limit(free=0, moving=SLOTS, waiting=half + 1, now=1.0) == 0
    assert prefetch.limit(free=0, moving=SLOTS, waiting=half, now=1.0) == half


def test_a_claim_asks_for_at_most_twice_the_previous_result() -> None:
    prefetch = learnt(*[0.0001] * 1000, brought=20)
    assert when_all_are_busy(prefetch) == 40
    assert when_all_are_free(prefetch) == 40
    prefetch.record_claim(3, 1.0)
    assert when_all_are_free(prefetch) == SLOTS


# Fairness: a worker that was idle leaves the others their share of the first jobs.
def test_after_a_quiet_moment_it_starts_with_the_free_slots() -> None:
    prefetch = learnt(*[0.0001] * 1000, brought=200)
    later = 1.0 + RECENT_S
    assert prefetch.limit(free=SLOTS, moving=SLOTS, waiting=0, now=later) == SLOTS
    assert prefetch.limit(free=0, moving=SLOTS, waiting=0, now=later) == 0
