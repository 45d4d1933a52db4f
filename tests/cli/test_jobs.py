"""`coatcheck jobs`, `coatcheck kinds` and `coatcheck queues`."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2
import pytest

from coatcheck import Client
from tests.cli.shell import Shell

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def test_jobs_are_printed_as_a_table(shell: Shell, client: Client) -> None:
    first, second = client.submit("echo", 1), client.submit("refuse", "no")
    first.result()
    client.wait(second.id)

    title, *rows = shell.run("jobs", "list", "--limit", "200").stdout.splitlines()

    assert title.split() == ["ID", "KIND", "STATE", "QUEUE", "AGE", "TOOK", "PROGRESS"]
    by_id = {row.split()[0]: row.split() for row in rows}
    assert by_id[first.id][1:4] == ["echo", "succeeded", "default"]
    assert by_id[second.id][-1] == "refused"
    assert list(by_id) == sorted(by_id, reverse=True)


def test_jobs_are_filtered(shell: Shell) -> None:
    label = ("--label", f"test={shell.folder.name}")
    one = shell.json("submit", "echo", "1", *label, "--label", "n=1", "--queue", "later")["id"]
    two = shell.json("submit", "refuse", '"no"', *label, "--label", "n=2")["id"]
    shell.run("watch", one)
    shell.run("watch", two)

    def found(*filters: str) -> list[str]:
        return [job["id"] for job in shell.json("jobs", "list", *label, *filters)["jobs"]]

    assert found() == [two, one]
    assert found("--state", "failed") == [two]
    assert found("--kind", "echo") == [one]
    assert found("--queue", "later") == [one]
    assert found("--label", "n=2") == [two]
    assert found("--since", "1h") == [two, one]
    assert found("--since", "2099-01-01T00:00:00Z") == []
    assert found("--limit", "1") == [two]


def test_long_list_is_read_in_pages(shell: Shell) -> None:
    label = f"many-{shell.folder.name}"
    jobs = [{"kind": "echo", "input": n, "labels": {"test": label}} for n in range(450)]
    httpx2.post(f"{shell.url}/v1/batches", json={"jobs": jobs}).raise_for_status()
    chosen = ("jobs", "list", "--label", f"test={label}")

    everything = shell.json(*chosen, "--all")
    some = shell.json(*chosen, "--limit", "250")

    assert len({job["id"] for job in everything["jobs"]}) == 450
    assert everything["more"] is False
    newest = [job["id"] for job in everything["jobs"][:250]]
    assert [job["id"] for job in some["jobs"]] == newest
    assert some["more"] is True
    assert shell.run(*chosen, "--limit", "3").stdout.count("\n") == 4


def test_show_prints_a_job_in_full(shell: Shell, client: Client) -> None:
    job = client.submit("echo", {"pages": 3}, labels={"customer": "17"})
    job.result()

    shown = shell.run("jobs", "show", job.id).stdout

    assert job.id in shown
    assert "customer=17" in shown
    assert '"pages": 3' in shown
    assert shell.json("jobs", "show", job.id) == client.get(job.id)


def test_explain_names_the_reason(shell: Shell, client: Client) -> None:
    job = shell.json("submit", "echo", "1", "--run-at", "1h")

    shown = shell.run("jobs", "explain", job["id"]).stdout
    told = shell.json("jobs", "explain", job["id"])

    assert shown.splitlines()[0] == f"job {job['id']} is queued"
    assert "delayed: it is scheduled to start at" in shown
    assert (told["id"], told["state"]) == (job["id"], "queued")
    assert [set(reason) for reason in told["explain"]] == [{"code", "message"}]
    client.cancel(job["id"])


def test_result_is_printed_or_exit_code_tells_why_not(
    shell: Shell, client: Client, gate: Path
) -> None:
    done, failed = client.submit("echo", [1]), client.submit("refuse", "no")
    running = client.submit("gated", str(gate))
    done.result()
    client.wait(failed.id)

    assert shell.run("jobs", "result", done.id).stdout == "[1]\n"
    assert shell.run("jobs", "result", failed.id).returncode == 1
    assert shell.run("jobs", "result", running.id).returncode == 6
    assert shell.run("jobs", "result", MISSING).returncode == 3
    gate.write_text("")


def test_cancel_handles_every_id(shell: Shell, client: Client) -> None:
    later = [shell.json("submit", "echo", "1", "--run-at", "1h")["id"] for _ in range(2)]
    done = client.submit("echo", 1)
    done.result()

    ended = shell.run("jobs", "cancel", later[0], MISSING, done.id, later[1])

    assert ended.returncode == 3
    assert ended.stdout.splitlines() == [
        f"{later[0]} cancelled",
        f"{done.id} was already succeeded",
        f"{later[1]} cancelled",
    ]
    assert MISSING in ended.stderr


def test_delete_removes_finished_jobs_only(shell: Shell, client: Client, gate: Path) -> None:
    done, running = client.submit("echo", 1), client.submit("gated", str(gate))
    done.result()

    ended = shell.run("jobs", "delete", running.id, done.id, "--json")

    assert ended.returncode == 1
    assert json.loads(ended.stdout)["id"] == done.id
    assert running.id in ended.stderr
    assert shell.run("jobs", "show", done.id).returncode == 3
    gate.write_text("")


def test_kinds_show_their_input_types(shell: Shell) -> None:
    title, *rows = shell.run("kinds").stdout.splitlines()
    kinds = shell.json("kinds")["kinds"]

    assert title.split() == ["KIND", "QUEUE", "ATTEMPTS", "TIMEOUT", "INPUT"]
    assert {row.split()[0] for row in rows} == {kind["name"] for kind in kinds}
    assert ["gated", "slow", "1", "1h", "string"] in [row.split() for row in rows]


def test_queue_is_paused_and_resumed(shell: Shell) -> None:
    paused = shell.json("queues", "pause", "held")
    job = shell.run("submit", "echo", "1", "--queue", "held").stdout.strip()
    explained = shell.run("jobs", "explain", job).stdout
    listed = shell.json("queues")["queues"]
    table = shell.run("queues", "list").stdout
    resumed = shell.run("queues", "resume", "held")

    assert paused["paused"] is True
    assert "coatcheck queues resume held" in explained
    assert [queue["ready"] for queue in listed if queue["name"] == "held"] == [1]
    [row] = [row.split() for row in table.splitlines() if row.startswith("held ")]
    assert (row[1:4], row[-1]) == (["1", "0", "0"], "paused")
    assert resumed.stdout.startswith("queue held is resumed")
    assert shell.run("watch", job).stdout == "1\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs", "list", "--state", "lost"],
        ["jobs", "list", "--since", "tomorrow"],
        ["jobs", "list", "--limit", "0"],
        ["jobs", "show"],
        ["jobs", "cancel"],
        ["queues", "--json", "pause", "x"],
        ["queues", "pause", "no such name"],
    ],
)
def test_wrong_usage_exits_with_2(shell: Shell, arguments: list[str]) -> None:
    ended = shell.run(*arguments)

    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert "Traceback" not in ended.stderr


def test_id_that_looks_like_a_path_is_escaped(shell: Shell) -> None:
    assert shell.run("jobs", "show", "../kinds").returncode == 3
    assert shell.run("jobs", "delete", "../queues").returncode == 3


@pytest.mark.parametrize("columns", [30, 80])
def test_id_is_never_truncated(shell: Shell, client: Client, columns: int) -> None:
    job = client.submit("echo", 1)
    job.result()
    with shell.on_terminal("jobs", "list", "--limit", "5", columns=columns) as screen:
        screen.end()
    assert job.id in screen.text


def test_queue_limit_is_set_and_removed(shell: Shell) -> None:
    limited = shell.run("queues", "limit", "gpu", "2")
    table = shell.run("queues", "list").stdout
    wrong = [shell.run("queues", "limit", "gpu", most) for most in ("0", "-1", "many")]
    lifted = shell.json("queues", "limit", "gpu", "none")

    assert limited.stdout.startswith("queue gpu runs at most 2 at once")
    assert ["gpu", "0", "0", "2", "0"] in [row.split() for row in table.splitlines()]
    assert [ended.returncode for ended in wrong] == [2, 2, 2]
    assert lifted["concurrency"] is None


def test_a_label_with_two_values_is_rejected(shell: Shell) -> None:
    for command in (("jobs", "list"), ("jobs", "resume", "--failed", "--yes")):
        ended = shell.run(*command, "--label", "a=1", "--label", "a=2")
        assert ended.returncode == 2
        assert "'a' is given two values: '1' and '2'" in ended.stderr
