"""Schedule: a job by the clock; each tick becomes exactly one job."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from coatcheck import Client


def test_the_app_declares_a_schedule(client: Client) -> None:
    (schedule,) = [each for each in client.schedules() if each["name"] == "morning"]

    assert (schedule["kind"], schedule["input"]) == ("greet", "morning")


def test_ticks_follow_the_time_zone(client: Client) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    ticks = [datetime.fromisoformat(tick).astimezone(berlin) for tick in client.ticks("morning", 2)]

    assert [tick.hour for tick in ticks] == [6, 6]
    assert ticks[1].date() - ticks[0].date() == timedelta(days=1)


def test_a_schedule_can_be_triggered_now(client: Client) -> None:
    handle = client.trigger("morning")

    assert handle.result(timeout=30) == "hello morning"
    assert client.get(handle.id)["labels"]["schedule"] == "morning"
