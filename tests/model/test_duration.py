from datetime import timedelta

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.model.duration import Duration, milliseconds


def test_durations_are_written_as_people_write_them() -> None:
    assert milliseconds("15m", "timeout") == 900_000
    assert milliseconds(90, "timeout") == 90_000
    assert milliseconds(timedelta(hours=2), "timeout") == 7_200_000


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        ("500ms", 500),
        ("1s", 1_000),
        ("2m", 120_000),
        ("3h", 10_800_000),
        ("1d", 86_400_000),
        ("1h30m", 5_400_000),
        ("1h 30m 5s", 5_405_000),
        ("1.5s", 1_500),
        ("0.25h", 900_000),
        (1.5, 1_500),
        (0.0001, 1),
        ("0.1ms", 1),
        (timedelta(microseconds=1), 1),
        (timedelta(days=7), 604_800_000),
    ],
)
def test_every_form(duration: Duration, expected: int) -> None:
    assert milliseconds(duration, "timeout") == expected


@pytest.mark.parametrize(
    "duration", ["", "15", "m", "15 minutes", "1y", "-5s", "5s-", "1h30", "1,5s", "s5", "٣s5"]
)
def test_what_is_not_a_duration_is_said_to_be_none(duration: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^keep_failed: .* is not a duration"):
        milliseconds(duration, "keep_failed")


@pytest.mark.parametrize(
    "duration", [0, -1, 0.0, "0s", timedelta(0), timedelta(seconds=-1), float("nan"), float("inf")]
)
def test_a_duration_is_more_than_nothing_and_less_than_forever(duration: Duration) -> None:
    with pytest.raises(ConfigurationError, match=r"^timeout must be more than 0"):
        milliseconds(duration, "timeout")
