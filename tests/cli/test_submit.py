"""`coatcheck submit` in a pipe."""

from __future__ import annotations

import json

import pytest

from coatcheck import Client
from tests.cli.shell import Shell


def test_submit_prints_only_the_id_and_does_not_wait(shell: Shell, client: Client) -> None:
    ended = shell.run("submit", "echo", '{"a": 1}')

    assert (ended.returncode, ended.stderr) == (0, "")
    assert client.wait(ended.stdout.strip())["result"] == {"a": 1}


def test_wait_prints_the_result_as_one_line_of_json(shell: Shell) -> None:
    ended = shell.run("submit", "echo", '{"text": "é \\u001b[31m", "n": [1, 2.5, null]}', "--wait")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == '{"text":"é \\u001b[31m","n":[1,2.5,null]}\n'


def test_input_is_read_from_stdin_or_a_file(shell: Shell) -> None:
    (shell.folder / "order.json").write_text('{"from": "file"}')

    assert shell.run("submit", "echo", "-", "--wait", given="[1]").stdout == "[1]\n"
    assert shell.run("submit", "echo", "@order.json", "--wait").stdout == '{"from":"file"}\n'


def test_kind_without_input_needs_none(shell: Shell) -> None:
    ended = shell.run("submit", "process_id", "--wait")

    assert int(ended.stdout) > 0


def test_every_option_reaches_the_job(shell: Shell) -> None:
    job = shell.json(
        *("submit", "echo", "1", "--queue", "later", "--priority", "7", "--run-at", "1h"),
        *("--label", "customer=17", "--label", "note=a=b", "--deadline", "2h"),
        *("--max-attempts", "9"),
    )

    assert (job["queue"], job["priority"], job["max_attempts"]) == ("later", 7, 9)
    assert job["labels"] == {"customer": "17", "note": "a=b"}
    assert job["run_at"] > job["created_at"]
    assert job["state"] == "queued"
    shell.run("jobs", "cancel", job["id"])


def test_same_key_submits_one_job(shell: Shell) -> None:
    first = shell.run("submit", "echo", "1", "--key", "order-17")
    again = shell.run("submit", "echo", "1", "--key", "order-17")
    other = shell.run("submit", "echo", "2", "--key", "order-17")

    assert first.stdout == again.stdout
    assert other.returncode == 2
    assert "key was used for another request" in other.stderr


def test_failed_job_prints_its_error_and_exits_with_1(shell: Shell) -> None:
    ended = shell.run("submit", "refuse", '"no [red]paper[/red] \\u001b]0;mine\\u0007"', "--wait")

    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.endswith(r"failed (error): refused: no [red]paper[/red] \e]0;mine\x07")


def test_wait_times_out_and_the_job_continues(shell: Shell, client: Client) -> None:
    ended = shell.run("submit", "echo", "1", "--run-at", "1h", "--wait", "--timeout", "100ms")

    assert (ended.returncode, ended.stdout) == (6, "")
    job_id = ended.stderr.split("coatcheck watch ")[1].split()[0]
    assert client.get(job_id)["state"] == "queued"
    client.cancel(job_id)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["echo", "nope"], "the input is not JSON"),
        (["echo", '{"a": 1, "a": 2}'], "duplicate key"),
        (["echo", "NaN"], "NaN is not a JSON number"),
        (["echo", '"\\ud800"'], "lone surrogate"),
        (["echo", "[" * 100_000], "nested too deep"),
        (["echo", "@missing.json"], "cannot read missing.json"),
        (["echo", "1", "--label", "plain"], "write a label as name=value"),
        (["echo", "1", "--run-at", "soon"], "'soon' is neither"),
        (
            ["echo", "1", "--run-at", "10m", "--key", "k"],
            "with --key, give --run-at as an absolute time",
        ),
        (["echo", "1", "--timeout", "-1"], "is not a duration"),
        (["crash", "17"], "the input does not fit kind 'crash'"),
        (["no-such-kind"], "there is no kind 'no-such-kind'"),
        (["echo", "1", "--priority", "5000"], "priority"),
    ],
)
def test_invalid_submissions_are_rejected(shell: Shell, arguments: list[str], said: str) -> None:
    ended = shell.run("submit", *arguments)

    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr


def test_unreachable_server(shell: Shell) -> None:
    ended = shell.run("submit", "echo", "1", "--url", "http://127.0.0.1:1")

    assert ended.returncode == 5
    [line] = ended.stderr.splitlines()
    assert line.startswith("coatcheck: cannot reach a server at http://127.0.0.1:1")


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://x", "http://", "nonsense", "http://[::"])
def test_invalid_address(shell: Shell, url: str) -> None:
    ended = shell.run("kinds", "--url", url)

    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr


def test_result_survives_a_pipe_that_cannot_encode_it(shell: Shell) -> None:
    ended = shell.run("submit", "echo", '"é"', "--wait", PYTHONIOENCODING="ascii")

    assert json.loads(ended.stdout) == "é"


@pytest.mark.parametrize("key", ["ck_1_sword\nfish", "ck_1_swordfish\u00e9"])
def test_invalid_api_key_is_not_printed(shell: Shell, key: str) -> None:
    ended = shell.run("kinds", COATCHECK_API_KEY=key)

    assert ended.returncode == 2
    assert "sword" not in ended.stderr


def test_password_in_the_address_is_not_printed(shell: Shell) -> None:
    ended = shell.run("kinds", "--url", "http://ada:swordfish@127.0.0.1:1")

    assert ended.returncode == 5
    assert "sword" not in ended.stderr
