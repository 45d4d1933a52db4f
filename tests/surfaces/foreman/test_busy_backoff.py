"""Retry delays of jobs whose model's targets are all busy."""

from coatcheck.surfaces.foreman.job import MAX_BACKOFF_S, MIN_BACKOFF_S, BusyBackoff


class FakeClock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_single_job_is_retried_soon() -> None:
    backoff = BusyBackoff(FakeClock())
    assert [backoff.add("llama", "a") for _ in range(3)] == [MIN_BACKOFF_S] * 3


def test_delay_grows_with_the_jobs_of_a_model_up_to_a_limit() -> None:
    backoff = BusyBackoff(FakeClock())
    afters = [backoff.add("llama", f"job-{number}") for number in range(30)]
    assert afters[:3] == [MIN_BACKOFF_S, 2 * MIN_BACKOFF_S, 3 * MIN_BACKOFF_S]
    assert set(afters[15:]) == {MAX_BACKOFF_S}
    assert backoff.add("phi", "another") == MIN_BACKOFF_S


def test_jobs_with_a_slot_or_overdue_are_forgotten() -> None:
    clock = FakeClock()
    backoff = BusyBackoff(clock)
    for job_id in ("a", "b", "c"):
        backoff.add("llama", job_id)
    backoff.remove("llama", "a")
    backoff.remove("llama", "never seen")
    assert backoff.add("llama", "b") == 2 * MIN_BACKOFF_S
    clock.seconds += 2 * MAX_BACKOFF_S
    assert backoff.add("llama", "b") == MIN_BACKOFF_S
