"""Half of all requests are disturbed; the caller notices nothing."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path

import pytest

from coatcheck import Client, Event, NewJob
from tests.cli.processes import PATIENCE_S, Running
from tests.client.both import Connect, Flavour, hasty
from tests.client.faulty_proxy import CutAfter, CutAt, Fault, FaultyProxy, seeded

JOBS = 40


@pytest.fixture
def label() -> dict[str, str]:
    """What tells the jobs of one test from all others."""
    return {"test": uuid.uuid4().hex}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_submit_is_one_job_and_every_result_arrives(
    server: Running, connect: Connect, flavour: Flavour, label: dict[str, str], seed: int
) -> None:
    direct = connect(server.url())
    with (
        FaultyProxy(server.url(), seeded(seed), seed) as proxy,
        ThreadPoolExecutor(4) as threads,
    ):
        client = connect(proxy.url, **hasty(flavour))

        def run(number: int) -> tuple[str, int]:
            handle = client.submit("echo", number, labels=label)
            return handle.id, handle.result(PATIENCE_S)

        found = list(threads.map(run, range(JOBS)))
        assert set(proxy.seen.plans) == set(Fault), "every kind of harm was done"

    assert [result for _, result in found] == list(range(JOBS))
    jobs = {job["id"]: job for job in direct.iterate(labels=label)}
    assert set(jobs) == {job_id for job_id, _ in found}
    assert len(jobs) == JOBS


@pytest.mark.parametrize("harm", [fault for fault in Fault if fault is not Fault.NONE])
def test_disturbed_submit_is_one_job(
    server: Running, connect: Connect, flavour: Flavour, label: dict[str, str], harm: Fault
) -> None:
    with FaultyProxy(server.url(), [harm, harm]) as proxy:
        client = connect(proxy.url, **hasty(flavour))

        assert client.run("echo", 7, PATIENCE_S, labels=label) == 7

    assert len(list(connect(server.url()).iterate(labels=label))) == 1


@pytest.mark.parametrize("harm", [Fault.REFUSED, Fault.UNANSWERED, Fault.CUT, Fault.TWICE])
def test_disturbed_batch_is_submitted_once(
    server: Running, connect: Connect, flavour: Flavour, label: dict[str, str], harm: Fault
) -> None:
    with FaultyProxy(server.url(), [harm, harm]) as proxy:
        client = connect(proxy.url, **hasty(flavour))
        handles = client.submit_batch([NewJob("echo", n, labels=label) for n in range(JOBS)])

        assert [handle.result(PATIENCE_S) for handle in handles] == list(range(JOBS))

    assert len(list(connect(server.url()).iterate(labels=label))) == JOBS


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_event_arrives_once_and_in_order(
    server: Running, connect: Connect, flavour: Flavour, seed: int
) -> None:
    direct = connect(server.url())
    handle = direct.submit("chat", 30)
    expected = list(handle.events())
    assert [event.seq for event in expected] == list(range(1, len(expected) + 1))
    with FaultyProxy(server.url(), seeded(seed), seed) as proxy:
        client = connect(proxy.url, **hasty(flavour))
        for _ in range(5):
            assert list(client.handle(handle.id).events()) == expected


def test_stream_cut_within_an_event_resumes_with_that_event(
    server: Running, connect: Connect, flavour: Flavour
) -> None:
    handle = connect(server.url()).submit("chat", 5)
    expected = list(handle.events())
    cuts = [CutAfter(f'"seq":{seq},"ty'.encode()) for seq in (1, 3, 4, len(expected))]
    cuts.append(CutAfter(b"event: en"))
    with FaultyProxy(server.url(), [Fault.NONE, *cuts]) as proxy:
        found = list(connect(proxy.url, **hasty(flavour)).handle(handle.id).events())

        assert found == expected
        assert len(proxy.seen.requests) == 1 + len(cuts) + 1


def test_events_arrive_live_despite_cuts(
    server: Running, connect: Connect, flavour: Flavour, pipe: Path
) -> None:
    direct = connect(server.url())
    handle = direct.submit("say_and_meet", str(pipe))
    with FaultyProxy(server.url(), [Fault.NONE, CutAfter(b'"before"'), Fault.CUT]) as proxy:
        events = connect(proxy.url, **hasty(flavour)).handle(handle.id).events()
        seen: list[Event] = []
        for event in events:
            seen.append(event)
            if event.data.get("message") == "before":
                # The handler waits: what comes now has not happened yet.
                pipe.write_text("go on")

    assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
    assert [event.data["message"] for event in seen if event.type == "log"] == ["before", "after"]


def test_result_arrives_by_plain_polls_if_long_polls_are_cut(
    server: Running, connect: Connect, flavour: Flavour, pipe: Path
) -> None:
    with (
        FaultyProxy(server.url(), repeat(CutAt(1.0))) as proxy,
        ThreadPoolExecutor(1) as threads,
    ):
        handle = connect(proxy.url, **hasty(flavour)).submit("meet", str(pipe))
        with pipe.open("w") as writing:
            waiting = threads.submit(handle.result, PATIENCE_S)
            proxy.wait_until(
                lambda seen: sum("?wait" not in line for line in seen.requests) >= 4,
                "the client polls without waiting",
            )
            writing.write("here")

        assert waiting.result(PATIENCE_S) == "here"
        assert sum("?wait" in line for line in proxy.seen.requests) == 2


def test_wait_survives_a_temporary_outage(
    own_server: Running, connect: Connect, flavour: Flavour, pipe: Path
) -> None:
    with (
        FaultyProxy(own_server.url(), [Fault.NONE]) as proxy,
        ThreadPoolExecutor(1) as threads,
    ):
        client: Client = connect(proxy.url, **hasty(flavour))
        handle = client.submit("meet", str(pipe))
        with pipe.open("w") as writing:
            waiting = threads.submit(handle.result, PATIENCE_S)
            proxy.wait_until(lambda seen: len(seen.requests) == 2, "the client waits")
            proxy.go_away()
            proxy.wait_until(lambda seen: seen.open == 0, "the client is cut off")
            writing.write("still here")
        assert not waiting.done()
        proxy.come_back()

        assert waiting.result(PATIENCE_S) == "still here"
