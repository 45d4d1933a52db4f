"""`coatcheck jobs steps`, `send`, `resume` and `fork`, and steps in `show` and `watch`."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import click
import pytest

from coatcheck import Client
from coatcheck.cli.output.time_format import read_since
from tests.cli.shell import Shell

MISSING = "01ARZ3NDEKTSV4RRFFQ69G5FAV"


def ask(client: Client, question: str = "who?") -> str:
    """Submit a job, send it an answer and wait for it to end."""
    handle = client.submit("ask", question)
    handle.send("answer", 42)
    handle.result()
    return handle.id


def test_steps_are_printed_as_a_table(shell: Shell, client: Client) -> None:
    job_id = ask(client)

    title, *rows = shell.run("jobs", "steps", job_id).stdout.splitlines()

    assert title.split() == ["#", "STEP", "STATE", "ATTEMPTS", "TOOK", "OUTCOME"]
    first, second = (row.split() for row in rows)
    assert (first[:4], first[-1]) == (["0", "count", "succeeded", "1"], "4")
    assert (second[:5], second[-1]) == (["1", "event", "answer", "succeeded", "1"], "42")
    assert shell.json("jobs", "steps", job_id) == {"steps": client.steps(job_id)}
    shown = shell.run("jobs", "show", job_id).stdout
    assert title in shown
    assert all(row in shown for row in rows)


def test_job_without_steps_says_so(shell: Shell, client: Client) -> None:
    job_id = client.submit("echo", 1).id
    ended = shell.run("jobs", "steps", job_id)
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "has no recorded steps" in ended.stderr
    assert shell.run("jobs", "steps", MISSING).returncode == 3


def test_failed_step_shows_its_error(shell: Shell, client: Client) -> None:
    job_id = client.submit("needs_file", "/no/such/file").id
    client.wait(job_id)
    *_, row = shell.run("jobs", "steps", job_id).stdout.splitlines()
    assert "read_text [file]  failed" in row
    assert "No such file" in row


def test_event_is_sent_to_a_job(shell: Shell, client: Client) -> None:
    handle = client.submit("ask", "who?")
    said = shell.run("jobs", "send", handle.id, "answer", '{"by": "Ada"}')
    assert (said.returncode, said.stdout) == (0, f"sent answer to {handle.id}\n")
    assert handle.result() == [4, {"by": "Ada"}]

    late = shell.run("jobs", "send", handle.id, "answer")
    assert late.returncode == 1
    assert "nobody will wait" in late.stderr
    assert shell.run("jobs", "send", MISSING, "answer").returncode == 3
    assert shell.run("jobs", "send", handle.id, "answer", "{").returncode == 2
    assert shell.run("jobs", "send", handle.id, "no name").returncode == 2


def test_jobs_are_resumed_by_id(shell: Shell, client: Client, tmp_path: Path) -> None:
    file = tmp_path / "needed"
    failed = client.submit("needs_file", str(file))
    client.wait(failed.id)
    ended = client.submit("echo", 1)
    ended.result()
    file.write_text("here")

    said = shell.run("jobs", "resume", failed.id, ended.id, MISSING)

    assert said.returncode == 3
    first, second = said.stdout.splitlines()
    assert first.startswith(f"{failed.id} is ")
    assert second == f"{ended.id} was already succeeded"
    assert failed.result() == "here"
    assert shell.json("jobs", "resume", ended.id)["state"] == "succeeded"


def test_matching_jobs_are_counted_and_resumed_after_confirmation(
    shell: Shell, client: Client, tmp_path: Path
) -> None:
    file = tmp_path / "needed"
    label = f"test={tmp_path.name}"
    labels = {"test": tmp_path.name}
    handles = [client.submit("needs_file", str(file), labels=labels) for _ in range(3)]
    for handle in handles:
        client.wait(handle.id)
    file.write_text("here")
    chosen = ("jobs", "resume", "--failed", "--kind", "needs_file", "--label", label)

    no = shell.run(*chosen, "--since", "1d", given="n\n")
    assert (no.returncode, no.stdout) == (1, "")
    assert "Resume 3 failed job(s)? [y/N]" in no.stderr
    assert {client.get(handle.id)["state"] for handle in handles} == {"failed"}

    assert shell.run(*chosen, "--since", "2099-01-01T00:00:00Z").stdout == "0 job(s) resumed\n"
    yes = shell.run(*chosen, "--since", "yesterday", given="y\n")
    assert (yes.returncode, yes.stdout) == (0, "3 job(s) resumed\n")
    assert [handle.result() for handle in handles] == ["here"] * 3
    assert shell.json(*chosen, "--yes") == {"jobs": 0}


def test_yes_resumes_cancelled_jobs_without_confirmation(
    shell: Shell, client: Client, tmp_path: Path
) -> None:
    later = ("--run-at", "1h", "--label", f"test={tmp_path.name}")
    job_id = shell.run("submit", "echo", "1", *later).stdout.strip()
    shell.run("jobs", "cancel", job_id)
    chosen = ("jobs", "resume", "--cancelled", "--label", f"test={tmp_path.name}", "--yes")
    assert shell.json(*chosen) == {"jobs": 1}
    assert shell.run("watch", job_id).stdout == "1\n"


@pytest.mark.parametrize("arguments", [(), (MISSING, "--failed"), ("--yes",)])
def test_resume_needs_ids_or_a_filter(shell: Shell, arguments: tuple[str, ...]) -> None:
    ended = shell.run("jobs", "resume", *arguments)
    assert ended.returncode == 2
    assert "give either job ids or a filter" in ended.stderr


def test_job_is_forked_from_a_step(shell: Shell, client: Client) -> None:
    job_id = ask(client)

    by_name = shell.run("jobs", "fork", job_id, "--from", "answer").stdout.strip()
    by_number = shell.json("jobs", "fork", job_id, "--from", "0", "--input", '"somebody"')

    assert client.get(by_name)["forked_from"] == by_number["forked_from"] == job_id
    assert f"forked from  {job_id}" in shell.run("jobs", "show", by_name).stdout
    for fork, result in ((by_name, [4, 7]), (by_number["id"], [8, 7])):
        client.send(fork, "answer", 7)
        assert client.handle(fork).result() == result
    unknown = shell.run("jobs", "fork", job_id, "--from", "nowhere")
    assert unknown.returncode == 2
    assert "no step of this name" in unknown.stderr
    assert shell.run("jobs", "fork", job_id).returncode == 2


def test_watch_shows_steps_and_the_reason_for_waiting(shell: Shell, client: Client) -> None:
    handle = client.submit("ask", "who?")
    with shell.on_terminal("watch", handle.id, columns=160) as screen:
        screen.wait_for("step 0: count succeeded")
        screen.wait_for("its handler waits for event 'answer'")
        handle.send("answer", "Ada")
        screen.wait_for("step 1: event answer succeeded")
        assert screen.end() == 0
        assert '"Ada"' in screen.text


def test_day_starts_at_midnight() -> None:
    def since(text: str) -> datetime:
        given = read_since(None, None, text)  # type: ignore[arg-type]  # click's, not looked at
        assert given is not None
        return datetime.fromisoformat(given).astimezone()

    today, yesterday = since("today"), since("yesterday")
    assert (today.hour, today.minute, yesterday.hour) == (0, 0, 0)
    assert today.date() - yesterday.date() == timedelta(days=1)
    assert timedelta() <= datetime.now().astimezone() - today < timedelta(days=2)
    with pytest.raises(click.BadParameter, match="yesterday"):
        since("tomorrow")
