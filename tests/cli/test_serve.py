"""`coatcheck serve` and `coatcheck worker` as real processes."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from coatcheck import Client
from coatcheck.cli.demo.command import ANNOUNCEMENT
from coatcheck.cli.demo.surfaces import QUESTION
from tests.cli.proc_files import children_of, listening_ports
from tests.cli.processes import COMMAND, PATIENCE_S, environment, run_to_end, running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


def test_serve_runs_an_api_and_a_worker_and_only_the_api_listens(
    tmp_path: Path, app_reference: str
) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        with Client(server.url()) as client:
            ran_in = client.run("process_id", timeout=PATIENCE_S)
        children = children_of(server.pid)
        workers = [pid for pid, command in children.items() if "worker" in command]
        apis = [pid for pid, command in children.items() if "--no-worker" in command]

        assert len(children) == 2
        assert [ran_in] == workers
        assert listening_ports(workers[0]) == set()
        assert len(listening_ports(apis[0])) == 1
        assert server.stop() == 0


def test_serve_prints_its_address_and_database(tmp_path: Path, app_reference: str) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", server.url())
        assert "loopback only" in server.stdout.wait_for(ANNOUNCEMENT)
        assert server.stdout.wait_for("Jobs are stored in").endswith("sqlite:///data/coatcheck.db")
        assert (tmp_path / "data" / "coatcheck.db").exists()
        cockpit = server.stdout.wait_for("The cockpit is at").split()[-1]
        assert cockpit == f"{server.url()}/ui"
        assert httpx2.get(cockpit).status_code == 200


def test_serve_listens_on_ipv6_loopback_too(tmp_path: Path, app_reference: str) -> None:
    arguments = ("serve", app_reference, "--host", "::1", "--port", "0", "--no-worker")
    with running(*arguments, folder=tmp_path) as server, Client(server.url()) as client:
        assert server.url().startswith("http://[::1]:")
        assert client.submit("process_id").job["state"] == "queued"


def test_no_worker_is_one_process_and_jobs_stay_queued(tmp_path: Path, app_reference: str) -> None:
    with (
        running("serve", app_reference, "--port", "0", "--no-worker", folder=tmp_path) as server,
        Client(server.url()) as client,
    ):
        job = client.submit("process_id").job

        assert job["state"] == "queued"
        assert client.wait(job["id"], timeout=0.2) == {**job, "position": 1}
        assert children_of(server.pid) == {}
        assert server.stop() == 0


def test_in_process_runs_jobs_in_the_api_process(tmp_path: Path, app_reference: str) -> None:
    with (
        running("serve", app_reference, "--port", "0", "--in-process", folder=tmp_path) as server,
        Client(server.url()) as client,
    ):
        assert client.run("process_id", timeout=PATIENCE_S) == server.pid
        assert children_of(server.pid) == {}
        assert len(listening_ports(server.pid)) == 1
        assert server.stop() == 0


# G30, G31
def test_worker_alone_runs_jobs_and_opens_no_port(tmp_path: Path, app_reference: str) -> None:
    with (
        running("serve", app_reference, "--port", "0", "--no-worker", folder=tmp_path) as api,
        running("worker", app_reference, folder=tmp_path) as worker,
    ):
        worker.stderr.wait_for("worker started")

        with Client(api.url()) as client:
            assert client.run("process_id", timeout=PATIENCE_S) == worker.pid
        assert listening_ports(worker.pid) == set()
        assert len(listening_ports(api.pid)) == 1, "else the line above proves nothing"
        assert children_of(worker.pid) == {}
        assert worker.stop() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_server_leaves_no_process_behind(
    tmp_path: Path, app_reference: str, number: signal.Signals
) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        server.url()
        children = children_of(server.pid)

        server.process.send_signal(number)

        assert server.process.wait(PATIENCE_S) == 0
        assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def test_log_lines_are_json_without_a_terminal(tmp_path: Path, app_reference: str) -> None:
    with running(
        "serve", app_reference, "--port", "0", folder=tmp_path, COATCHECK_LOG_LEVEL="debug"
    ) as server:
        with Client(server.url()) as client:
            client.run("process_id", timeout=PATIENCE_S)
            crashed = client.submit("crash", "a secret of the caller")
            assert client.wait(crashed.id, PATIENCE_S)["state"] == "failed"
        server.stop()
        lines = [json.loads(line) for line in server.stderr.until_end()]

    assert {
        "process started",
        "job submitted",
        "worker started",
        "handler failed",
        "worker stopped",
    } <= {line["message"] for line in lines}
    for line in lines:
        assert {"time", "level", "logger", "message"} <= set(line)
    assert "a secret of the caller" not in str(lines)


def test_log_is_readable_text_on_a_terminal(tmp_path: Path, app_reference: str) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "worker", app_reference], cwd=tmp_path, env=environment(), stderr=theirs
    )
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as terminal:
        try:
            line = terminal.readline()
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

    assert re.match(r"\d\d:\d\d:\d\d\.\d{3} info +worker started  worker=\w{26} slots=\d+", line)


def test_demo_runs_a_job_through_each_surface(tmp_path: Path) -> None:
    ended = run_to_end("demo", "--once", "--port", "0", folder=tmp_path, COLUMNS="200")

    assert ended.returncode == 0, ended.stdout
    assert "there are 1,270,607 primes below 20,000,000" in ended.stdout
    assert (tmp_path / "data" / "demo-diagram.svg").read_text().startswith("<svg")
    assert f"  {os.uname().sysname} " in ended.stdout
    assert "no code is stored" in ended.stdout
    # It asks its own documentation, and the page that knows answers.
    [answer] = re.findall(rf"search\?q={re.escape(QUESTION)}\n  (.*?): (.*)", ended.stdout)
    assert answer[0] == "docs/guarantees.md"
    assert "worker" in answer[1]
    assert '{"report": "2030-01", "pages": 42}' in ended.stdout
    assert "foreman is not available: it is not enabled; set FOREMAN_OLLAMA_URL" in ended.stdout
    assert ended.stderr == ""
