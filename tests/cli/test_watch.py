"""`coatcheck watch` and `submit --wait` on a terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from coatcheck import Client
from tests.cli.proc_files import children_of
from tests.cli.processes import running
from tests.cli.shell import Shell

HOSTILE = r"half [bold]way[/bold] \e[31m"


def test_watch_shows_phase_message_and_log(shell: Shell, client: Client, gate: Path) -> None:
    job = client.submit("gated", str(gate)).job
    with shell.on_terminal("watch", job["id"]) as screen:
        screen.wait_for(HOSTILE)
        screen.wait_for("loading ")
        screen.wait_for(" 50% ")
        screen.wait_for("has begun  attempt=1")
        gate.write_text("done")
        screen.wait_for("succeeded after")

        assert screen.end() == 0
        assert '\n"done"\n' in screen.text
    assert "\x1b[31m\n" not in screen.raw, "what a job says does not colour the terminal"


def test_ctrl_c_leaves_the_job_running_and_prints_how_to_follow_it(
    shell: Shell, client: Client, gate: Path
) -> None:
    with shell.on_terminal("submit", "gated", f'"{gate}"', "--wait") as screen:
        screen.wait_for(" 50% ")
        screen.press_ctrl_c()

        assert screen.end() == 130
        found = re.search(r"Follow it with: coatcheck watch (\w+)\n", screen.text)
    assert found is not None, screen.text
    assert client.get(found[1])["state"] == "running"
    gate.write_text("later")
    assert shell.run("watch", found[1]).stdout == '"later"\n'


def test_hint_names_the_server_if_it_is_not_the_default(
    shell: Shell, client: Client, gate: Path
) -> None:
    job = client.submit("gated", str(gate)).job
    arguments = ("watch", job["id"], "--url", shell.url)
    with shell.on_terminal(*arguments, COATCHECK_URL="") as screen:
        screen.wait_for("loading")
        screen.press_ctrl_c()
        screen.end()
    assert f"coatcheck watch {job['id']} --url {shell.url}" in screen.text
    gate.write_text("")


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_watch_survives_a_server_restart(tmp_path: Path, app_reference: str, gate: Path) -> None:
    with running("serve", app_reference, "--port", "0", folder=tmp_path) as server:
        shell = Shell(server.url(), tmp_path)
        with shell.on_terminal("submit", "gated", f'"{gate}"', "--wait") as screen:
            screen.wait_for(" 50% ")
            children = children_of(server.pid).items()
            [api] = [pid for pid, command in children if "--no-worker" in command]
            os.kill(api, signal.SIGKILL)
            screen.wait_for("the server is unreachable")
            gate.write_text("in the end")

            assert screen.end() == 0
            assert '"in the end"' in screen.text


def test_finished_job_prints_its_outcome(shell: Shell, client: Client) -> None:
    done = client.submit("echo", {"a": [1]})
    done.result()
    failed = client.submit("refuse", "no paper").id
    client.wait(failed)

    with shell.on_terminal("watch", done.id) as screen:
        assert screen.end() == 0
        assert '{\n  "a": [\n    1\n  ]\n}\n' in screen.text
    with shell.on_terminal("watch", failed) as screen:
        assert screen.end() == 1
        assert "refused: no paper" in screen.text


def test_cancelled_job_exits_with_4(shell: Shell, client: Client) -> None:
    later = shell.run("submit", "echo", "1", "--run-at", "1h").stdout.strip()
    client.cancel(later)

    ended = shell.run("watch", later)

    assert (ended.returncode, ended.stdout) == (4, "")
    assert "was cancelled" in ended.stderr


def test_unknown_job_exits_with_3(shell: Shell) -> None:
    ended = shell.run("watch", "01ARZ3NDEKTSV4RRFFQ69G5FAV")

    assert (ended.returncode, ended.stdout) == (3, "")
    assert ended.stderr == "coatcheck: there is no job 01ARZ3NDEKTSV4RRFFQ69G5FAV\n"


def test_reason_for_a_queued_job_is_shown(shell: Shell) -> None:
    arguments = ("submit", "echo", "1", "--run-at", "1h", "--wait", "--timeout", "500ms")
    with shell.on_terminal(*arguments, columns=140) as screen:
        assert screen.end() == 6
        assert "queued" in screen.text
        assert "it is scheduled to start at" in screen.text
        assert "is still queued; it continues" in screen.text


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_progress_bar_fits_any_terminal(
    shell: Shell, client: Client, gate: Path, columns: int
) -> None:
    job = client.submit("gated", str(gate)).job
    with shell.on_terminal("watch", job["id"], columns=columns) as screen:
        screen.wait_for(" 50% ")
        gate.write_text("done")
        screen.end()
    lines = re.split(r"[\r\n]", screen.text)
    bars = [line for line in lines if "━" in line or "%" in line]
    assert bars
    assert all(len(line) <= columns for line in bars), max(bars, key=len)


def test_no_color_is_honored(shell: Shell, client: Client) -> None:
    done = client.submit("echo", 1)
    done.result()
    with shell.on_terminal("jobs", "list", "--limit", "1", NO_COLOR="1") as screen:
        screen.end()
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", screen.raw)


def test_submit_on_a_terminal_prints_how_to_follow_the_job(shell: Shell) -> None:
    with shell.on_terminal("submit", "echo", "1") as screen:
        assert screen.end() == 0
    [job_id, *hints] = screen.text.splitlines()
    assert any(f"coatcheck watch {job_id}" in hint for hint in hints)
