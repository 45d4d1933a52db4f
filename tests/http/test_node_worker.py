"""examples/worker.mjs at work: a worker in another language, killed, frozen, stopped and cancelled
like one of ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from coatcheck import Client, JobHandle
from tests.cli.processes import PATIENCE_S, running
from tests.node import node

from . import gateway

KINDS = Path(__file__).with_name("kinds_in_node.mjs")


@dataclass(frozen=True)
class Shop:
    """A server without a worker of ours, and the folder in which workers in Node work for it."""

    url: str
    client: Client
    folder: Path

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen([node(), str(KINDS), self.url], cwd=self.folder) as process:
            try:
                yield process
            finally:
                process.kill()

    def open_gate(self) -> None:
        """Let the orders go on that are paid."""
        (self.folder / "gate").touch()

    def effects(self) -> list[str]:
        """Return what was done for good, in order."""
        return (self.folder / "effects").read_text().split()


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    settings = {
        "COATCHECK_DATABASE": f"sqlite:///{tmp_path}/jobs.db",
        "COATCHECK_LEASE_S": "1",
        "COATCHECK_SWEEP_S": "0.2",
    }
    arguments = ("serve", f"{gateway.__file__}:app", "--port", "0", "--no-worker")
    with running(*arguments, folder=tmp_path, **settings) as server:
        url = server.url()
        with Client(url) as client:
            yield Shop(url, client, tmp_path)


def wait_until_paid(handle: JobHandle) -> None:
    """Wait until an order stands at the gate, which it does after three steps."""
    for event in handle.events():
        if event.type == "progress" and event.data["message"] == "paid":
            return


# I18
def test_a_job_is_done_with_steps_and_progress(shop: Shop) -> None:
    shop.open_gate()
    with shop.worker() as process:
        handle = shop.client.submit("order", "tea")
        assert handle.result() == {
            "label": 300_000,
            "copy": "tea",
            "cents": 1200,
            "attempt": 1,
            "pid": process.pid,
        }
    assert handle.refresh()["progress"] == {"done": 1, "total": 2, "message": "paid"}
    taken = [
        (step["seq"], step["name"], step["key"], step["occurrence"]) for step in handle.steps()
    ]
    assert taken == [
        (0, "pay", "once", 0),
        (1, "print", None, 0),
        (2, "print", None, 1),
        (3, "send", None, 0),
    ]
    assert shop.effects() == ["paid", "printed", "copied", "sent"]


# I18
def test_the_job_of_a_killed_worker_goes_on_elsewhere_after_what_is_on_record(shop: Shop) -> None:
    handle = shop.client.submit("order", "tea")
    with shop.worker() as killed:
        wait_until_paid(handle)
        killed.kill()
    with shop.worker() as other:
        shop.open_gate()
        result = handle.result(PATIENCE_S)
    assert (result["attempt"], result["pid"]) == (2, other.pid)
    assert (result["cents"], result["label"], result["copy"]) == (1200, 300_000, "tea")
    assert shop.effects() == ["paid", "printed", "copied", "sent"], "each was done once"


# I18
def test_a_frozen_worker_loses_its_job_and_nothing_it_says_counts(shop: Shop) -> None:
    handle = shop.client.submit("order", "tea")
    with shop.worker() as frozen:
        wait_until_paid(handle)
        os.kill(frozen.pid, signal.SIGSTOP)
        with shop.worker() as other:
            shop.open_gate()
            assert handle.result(PATIENCE_S)["pid"] == other.pid
        os.kill(frozen.pid, signal.SIGCONT)
        assert shop.client.submit("order", "milk").result(PATIENCE_S)["pid"] == frozen.pid
    assert handle.result()["pid"] == other.pid


# I18
def test_how_a_job_failed_is_told(shop: Shop) -> None:
    with shop.worker():
        refused = shop.client.wait(shop.client.submit("refuse", "out of tea").id)
        assert (refused["state"], refused["attempt"]) == ("failed", 1)
        assert (refused["error"]["code"], refused["error"]["message"]) == ("refused", "out of tea")

        last = shop.client.wait(shop.client.submit("stumble", "over a cup", max_attempts=1).id)
        assert last["state"] == "failed"
        assert (last["error"]["code"], last["error"]["message"]) == ("TypeError", "over a cup")
        again = shop.client.submit("stumble", "over a cup")
        assert again.result(PATIENCE_S) == "at last"
        assert again.refresh()["attempt"] == 2

        misfit = shop.client.wait(shop.client.submit("misfit", None).id)
        assert (misfit["state"], misfit["attempt"]) == ("failed", 1)


# I18
def test_a_worker_that_is_told_to_end_gives_its_job_back(shop: Shop) -> None:
    handle = shop.client.submit("order", "tea")
    with shop.worker() as stopped:
        wait_until_paid(handle)
        stopped.terminate()
        assert stopped.wait(PATIENCE_S) == 0
    job = handle.refresh()
    assert (job["state"], job["reason"], job["attempt"]) == ("queued", "released", 0)


# I18
def test_a_cancelled_job_stops(shop: Shop) -> None:
    handle = shop.client.submit("order", "tea")
    with shop.worker():
        wait_until_paid(handle)
        handle.cancel()
        assert shop.client.wait(handle.id)["state"] == "cancelled"
        shop.open_gate()
        assert shop.client.submit("order", "milk").result(PATIENCE_S)["copy"] == "milk"
    assert shop.effects().count("sent") == 1
