"""The examples on steps, waits, fan-out, resume and fork, and the apps in examples/, run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import httpx2

from coatcheck import Client, JobHandle

from .pages import ROOT, blocks, run_curl, write_python_files
from .test_examples import run_shell, serving

HOW_TO = ROOT / "docs/how-to"
EXAMPLES = ROOT / "examples"


def run_program(name: str, folder: Path) -> list[str]:
    """Run a program of the documentation and return the lines it prints."""
    command = [sys.executable, name]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def wait_until_it_waits(handle: JobHandle) -> None:
    for event in handle.events():
        if event.type == "state" and event.data["state"] == "waiting":
            return


def names(steps: list[dict[str, object]]) -> list[object]:
    return [step["name"] for step in steps]


def test_durable_steps(tmp_path: Path) -> None:
    write_python_files(HOW_TO / "durable-steps.md", tmp_path)
    with serving(tmp_path, "orders:app") as url, Client(url) as client:
        handle = client.submit("order", "Aida")
        seat, receipt, taxi = handle.result()
        assert (seat, taxi) == ("seat of Aida", "on foot: ConnectionError")
        assert receipt == f"1200 cents, once for {handle.id}/charge#0"
        assert names(handle.steps()) == ["reserve", "charge", "call_a_taxi"]


def test_waits_and_approvals(tmp_path: Path) -> None:
    page = HOW_TO / "waits-and-approvals.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "trial:app") as url:
        write_python_files(page, tmp_path, url)
        assert run_program("decide.py", tmp_path) == ["Ada keeps it: yearly"]


def test_fan_out(tmp_path: Path) -> None:
    write_python_files(HOW_TO / "fan-out.md", tmp_path)
    with serving(tmp_path, "pictures:app") as url, Client(url) as client:
        handle = client.submit("album", ["a", "b", "c"])
        assert handle.result() == ["small a", "small b", "small c"]
        children = [step["result"] for step in handle.steps() if step["op"] == "child"]
        assert {client.get(child)["parent"] for child in children} == {handle.id}


def test_resume_and_fork(tmp_path: Path) -> None:
    page = HOW_TO / "resume-and-fork.md"
    write_python_files(page, tmp_path)
    in_bulk, one = (block.text for block in blocks(page) if block.language == "sh")
    with serving(tmp_path, "invoices:app") as url, Client(url) as client:
        write_python_files(page, tmp_path, url)
        said = run_program("mend.py", tmp_path)
        assert said == ["failed", "invoice 9: 42", "invoice 9: 43"]

        missing = client.submit("invoice", "later.txt")
        client.wait(missing.id)
        (tmp_path / "later.txt").write_text("7")
        assert run_shell(in_bulk, tmp_path, url).endswith("1 job(s) resumed\n")
        assert missing.result() == "invoice 9: 7"
        *_, watched = run_shell(one, tmp_path, url).splitlines()
        assert watched == '"invoice 9: 43"'


def test_a_refund_waits_for_its_approval_and_survives_a_restart(tmp_path: Path) -> None:
    app = f"{EXAMPLES / 'approval.py'}:app"
    with serving(tmp_path, app) as url, Client(url) as client:
        small = client.submit("refund", {"order": "A-1", "cents": 500})
        assert small.result() == f"paid 500 under {small.id}/pay#0"
        large = client.submit("refund", {"order": "A-17", "cents": 120_000})
        wait_until_it_waits(large)
        refused = client.submit("refund", {"order": "A-18", "cents": 120_000})
        refused.send("decision", {"approved": False, "by": "Bob"})
        assert refused.result() == "rejected by Bob"
    with serving(tmp_path, app) as url, Client(url) as client:
        again = client.handle(large.id)
        assert again.job["state"] == "waiting"
        [why] = again.explain()
        assert why["code"] == "waiting-for-event"
        again.send("decision", {"approved": True, "by": "Ada"})
        assert again.result() == f"paid 120000 under {large.id}/pay#0"
        assert names(again.steps()) == ["ask_for_approval", "decision", "pay"]


def test_a_report_gathers_many_jobs(tmp_path: Path) -> None:
    app = f"{EXAMPLES / 'fan_out.py'}:app"
    with serving(tmp_path, app) as url, Client(url) as client:
        assert client.run("report", ["north", "south", "up"]) == {
            "north": 500,
            "south": 500,
            "up": 200,
        }


def test_an_agent_records_a_step_per_turn(tmp_path: Path) -> None:
    app = f"{EXAMPLES / 'agent.py'}:app"
    with serving(tmp_path, app) as url, Client(url) as client:
        handle = client.submit("research", "how long is the Danube?")
        said = [event.data for event in handle.events() if event.type == "output"]
        assert [entry["tool"] for entry in said] == ["search", "convert"]
        answer = "2850000 m, says a page about how long is the Danube?"
        assert handle.result() == answer
        taken = [(step["name"], step["key"]) for step in handle.steps()]
        assert taken == [
            ("ask_model", "0"),
            ("search", "0"),
            ("ask_model", "1"),
            ("convert", "1"),
            ("ask_model", "2"),
        ]
        fork = handle.fork("convert")
        assert fork.result() == answer


def test_a_surface_of_its_own_accepts_reports(tmp_path: Path) -> None:
    page = HOW_TO / "write-a-surface.md"
    serve, order = (block.text for block in blocks(page) if block.language == "sh")
    with serving(ROOT, serve.split()[2], COATCHECK_DATABASE=f"sqlite:///{tmp_path}/a.db") as url:
        ordered = run_curl(order.strip().replace("http://127.0.0.1:8080", url)).json()
        [shown] = (block.text for block in blocks(page) if block.language == "json")
        assert ordered == {**json.loads(shown), "ticket": ordered["ticket"]}
        with Client(url) as client:
            client.wait(ordered["ticket"])
        ready = httpx2.get(f"{url}/reports/{ordered['ticket']}").json()
        assert ready == {**ordered, "status": "READY", "report": "Nothing happened in 2026."}


def test_every_example_is_run_and_listed() -> None:
    found = {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".mjs")}
    # The schedule in tests/docs/test_examples.py.
    run = {"approval.py", "fan_out.py", "agent.py", "own_surface.py", "nightly_schedule.py"}
    run |= {"slow_fastapi.py", "slow_django.py"}  # tests/middleware/test_examples.py
    run |= {"bulk_load.py"}  # tests/docs/test_bulk_load.py
    run |= {"worker.mjs"}  # tests/docs/test_examples.py, tests/http/test_node_worker.py
    assert found == run
    listed = (EXAMPLES / "README.md").read_text()
    assert all(f"({name})" in listed for name in found)
