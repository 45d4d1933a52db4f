"""Cancel: a queued job ends at once; a running one is interrupted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from coatcheck import Client, JobCancelled


def test_a_queued_job_is_cancelled_at_once(client: Client) -> None:
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    handle = client.submit("greet", "ada", run_at=tomorrow)

    assert handle.cancel()["state"] == "cancelled"
    with pytest.raises(JobCancelled):
        handle.result()


def test_a_running_job_is_interrupted(client: Client) -> None:
    handle = client.submit("wait_for_cancel")
    for event in handle.events():
        if event.type == "progress":
            break

    handle.cancel()

    with pytest.raises(JobCancelled):
        handle.result(timeout=60)


def test_cancelling_a_finished_job_changes_nothing(client: Client) -> None:
    handle = client.submit("greet", "ada")
    handle.result()

    assert handle.cancel()["state"] == "succeeded"
