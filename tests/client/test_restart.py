"""Waits and submits survive a restart of the API process."""

from __future__ import annotations

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.proc_files import children_of, connected_ports
from tests.cli.processes import PATIENCE_S, Running, poll_until
from tests.client.both import Connect

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def test_wait_survives_the_death_of_the_api_process(
    own_server: Running, pipe: Path, connect: Connect
) -> None:
    submitter, waiter = connect(own_server.url()), connect(own_server.url())
    with ThreadPoolExecutor(1) as threads:
        handle = submitter.submit("meet", str(pipe))
        with pipe.open("w") as writing:
            api = _api_process(own_server)
            waiting = threads.submit(waiter.wait, handle.id, PATIENCE_S)
            poll_until(lambda: len(connected_ports(api)) == 2, "the waiter connects to the API")

            os.kill(api, signal.SIGKILL)
            own_server.stderr.wait_for("process exited; restarting")
            assert not waiting.done()
            writing.write("still here")

        job = waiting.result(PATIENCE_S)

    assert job["state"] == "succeeded"
    assert job["result"] == "still here"
    assert job["attempt"] == 1, "the worker went on meanwhile"


def test_submit_during_a_restart_waits(own_server: Running, connect: Connect) -> None:
    url = own_server.url()
    before = _api_process(own_server)

    os.kill(before, signal.SIGKILL)
    own_server.stderr.wait_for("process exited; restarting")
    assert connect(url).run("echo", "patience", timeout=PATIENCE_S) == "patience"

    assert _api_process(own_server) != before


def _api_process(server: Running) -> int:
    [pid] = [pid for pid, command in children_of(server.pid).items() if "--no-worker" in command]
    return pid
