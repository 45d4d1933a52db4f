"""Where every seat is taken, those who stand share the looking."""

from coatcheck.surfaces.foreman.busy_backoff import LATEST_S, SOONEST_S, BusyBackoff


class Watch:
    """A clock that stands."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def test_one_that_stands_alone_looks_again_soon_however_often_it_has_looked() -> None:
    standing = BusyBackoff(Watch())
    assert [standing.turned_away("llama", "a") for _ in range(3)] == [SOONEST_S] * 3


def test_the_more_there_are_of_a_model_the_later_each_comes_back_up_to_a_limit() -> None:
    standing = BusyBackoff(Watch())
    afters = [standing.turned_away("llama", f"job-{number}") for number in range(30)]
    assert afters[:3] == [SOONEST_S, 2 * SOONEST_S, 3 * SOONEST_S]
    assert set(afters[15:]) == {LATEST_S}
    assert standing.turned_away("phi", "another") == SOONEST_S


def test_who_has_found_a_seat_or_is_not_seen_any_more_stands_no_longer() -> None:
    watch = Watch()
    standing = BusyBackoff(watch)
    for job_id in ("a", "b", "c"):
        standing.turned_away("llama", job_id)
    standing.seated("llama", "a")
    standing.seated("llama", "never seen")
    assert standing.turned_away("llama", "b") == 2 * SOONEST_S
    watch.seconds += 2 * LATEST_S
    assert standing.turned_away("llama", "b") == SOONEST_S
