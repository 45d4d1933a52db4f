"""Wait: poll, wait, or follow the events."""

from __future__ import annotations

from coatcheck import Client


def test_result_waits_for_the_job(client: Client) -> None:
    assert client.submit("greet", "ada").result(timeout=30) == "hello ada"


def test_run_submits_and_waits(client: Client) -> None:
    assert client.run("greet", "ada") == "hello ada"


def test_get_reads_the_job_document(client: Client) -> None:
    handle = client.submit("greet", "ada")
    handle.result()

    job = client.get(handle.id)
    assert (job["state"], job["result"], job["attempt"]) == ("succeeded", "hello ada", 1)


def test_events_end_with_the_final_state(client: Client) -> None:
    handle = client.submit("greet", "ada")

    events = list(handle.events())
    assert [event.data["state"] for event in events if event.type == "state"] == [
        "queued",
        "running",
        "succeeded",
    ]
