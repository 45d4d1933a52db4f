"""`coatcheck schedules`, as text and as JSON."""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path

import pytest

from coatcheck import Client
from tests.cli.processes import PATIENCE_S, running
from tests.cli.shell import Shell


@pytest.fixture
def name() -> str:
    return f"s{uuid.uuid4().hex[:12]}"


def test_schedule_life_cycle(shell: Shell, client: Client, name: str) -> None:
    made = shell.run(
        *("schedules", "create", name, "echo", '{"n": 1}', "--cron", "0 3 1 1 *"),
        *("--timezone", "Europe/Berlin", "--label", "a=b", "--deadline", "2h", "--priority", "4"),
        *("--catch-up", "skip", "--overlap", "skip", "--queue", "night", "--max-attempts", "2"),
    )
    assert (made.returncode, made.stderr) == (0, "")
    assert re.fullmatch(
        rf"schedule {name} is due: \d{{4}}-01-01T02:00:00.000Z \(in .*\)\n", made.stdout
    )

    shown = shell.json("schedules", "show", name)
    assert (shown["input"], shown["labels"]) == ({"n": 1}, {"a": "b"})
    assert (shown["deadline_s"], shown["priority"], shown["queue"]) == (7200, 4, "night")
    assert (shown["catch_up"], shown["overlap"], shown["max_attempts"]) == ("skip", "skip", 2)
    page = shell.run("schedules", "show", name).stdout
    assert re.search(r"^when +0 3 1 1 \* Europe/Berlin$", page, re.MULTILINE)

    assert shown in shell.json("schedules", "list")["schedules"]
    [row] = [line for line in shell.run("schedules").stdout.splitlines() if name in line]
    assert "echo" in row and "0 3 1 1 * Europe/Berlin" in row and "in " in row

    ticks = shell.json("schedules", "next", name, "--count", "2")["ticks"]
    assert ticks[0] == shown["next_at"] and len(ticks) == 2
    table = shell.run("schedules", "next", name, "--count", "1").stdout
    assert "03:00:00 +0100" in table

    assert shell.run("schedules", "pause", name).stdout == f"schedule {name} is paused\n"
    assert shell.json("schedules", "pause", name)["paused"] is True
    assert shell.run("schedules", "resume", name).stdout.startswith(
        f"schedule {name} is resumed, next due: "
    )

    triggered = shell.run("schedules", "trigger", name)
    job = client.wait(triggered.stdout.strip(), PATIENCE_S)
    assert (job["state"], job["result"]) == ("succeeded", {"n": 1})
    assert job["labels"] == {"a": "b", "schedule": name}

    assert shell.run("schedules", "delete", name).stdout == f"schedule {name} is deleted\n"
    gone = shell.run("schedules", "show", name)
    assert (gone.returncode, gone.stdout) == (3, "")


def test_interval_schedule_with_input_from_a_file(shell: Shell, name: str) -> None:
    (shell.folder / "input.json").write_text('["x"]')
    made = shell.json(
        *("schedules", "create", name, "echo", "@input.json", "--every", "1h30m"),
        *("--start-at", "2030-01-01T00:00:00+01:00"),
    )
    assert (made["input"], made["every_s"]) == (["x"], 5400)
    assert made["start_at"] == "2029-12-31T23:00:00.000Z"
    [row] = [line for line in shell.run("schedules").stdout.splitlines() if name in line]
    assert "every 1h30m" in row
    shell.run("schedules", "delete", name)


def test_next_ticks_need_no_server(shell: Shell) -> None:
    options = ("--cron", "30 2 * * sun", "--timezone", "Europe/Berlin", "--count", "3")
    away = shell.run("schedules", "next", *options, "--json", COATCHECK_URL="http://127.0.0.1:9")
    assert (away.returncode, away.stderr) == (0, "")
    assert len(json.loads(away.stdout)["ticks"]) == 3


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["create", "x", "echo", "--cron", "0 25 * * *"], "hour: 25 is not between 0 and 23"),
        (["create", "x", "echo"], "either a cron expression or an interval"),
        (["create", "x", "nothing-of-the-kind", "--every", "5m"], "there is no kind"),
        (["create", "x", "echo", "{", "--every", "5m"], "not JSON"),
        (["create", "x", "echo", "--every", "5m", "--start-at", "noon"], "not a time"),
        (["create", "a b", "echo", "--every", "5m"], "invalid schedule name"),
        (["next", "--cron", "99 * * * *"], "minute: 99"),
        (["next", "--cron", "@daily", "--timezone", "Berlin"], "IANA"),
        (["next", "x", "--cron", "@daily"], "either the name"),
        (["--json", "pause", "x"], "put options after 'pause'"),
    ],
)
def test_invalid_schedules_are_rejected(shell: Shell, arguments: list[str], complaint: str) -> None:
    ended = shell.run("schedules", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert complaint in ended.stderr
    assert shell.run("schedules", "show", "x").returncode == 3


TASKS = """
from coatcheck import App, Context
app = App()

@app.job
async def tick(ctx: Context, text: str) -> str:
    return text

app.schedule("often", tick, "tock", every=1)
"""


def test_declared_schedule_disappears_when_removed_from_the_app(tmp_path: Path) -> None:
    module = tmp_path / "tasks.py"
    module.write_text(TASKS)
    arguments = ("serve", "tasks.py:app", "--port", "0")
    with running(*arguments, folder=tmp_path) as server, Client(server.url()) as client:
        declared = client.schedule("often")
        assert declared["declared"] is True
        while client.schedule("often")["last_job"] is None:
            client.run("tick", "", PATIENCE_S)
        assert client.handle(client.schedule("often")["last_job"]).result(PATIENCE_S) == "tock"
    module.write_text(TASKS.partition("app.schedule")[0])
    with running(*arguments, folder=tmp_path) as server, Client(server.url()) as client:
        assert client.schedules() == []


def test_invalid_declaration_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS.replace("every=1", "cron='0 25 * * *'"))
    ended = Shell("", tmp_path).run("serve", "tasks.py:app", "--port", "0", "--in-process")
    assert ended.returncode == 78
    assert "hour: 25 is not between 0 and 23" in ended.stderr
