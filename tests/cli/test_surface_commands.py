"""`coatcheck render`, `coatcheck exec` and the demo: the built-in surfaces from a shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import Running
from tests.cli.shell import Shell

FLOW = "flowchart LR\n  one --> two\n"


@pytest.fixture(scope="module")
def server(plain_server: Running) -> Running:
    return plain_server


def run(
    server: Running, folder: Path, *arguments: str, said: str = ""
) -> subprocess.CompletedProcess[str]:
    return Shell(server.url(), folder, patience_s=100).run(*arguments, given=said)


def test_a_diagram_becomes_a_picture_beside_it(server: Running, tmp_path: Path) -> None:
    (tmp_path / "flow.mmd").write_text(FLOW)
    done = run(server, tmp_path, "render", "flow.mmd")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith("flow.svg  (")
    assert (tmp_path / "flow.svg").read_text().startswith("<svg")


def test_a_picture_goes_where_it_is_told(server: Running, tmp_path: Path) -> None:
    (tmp_path / "plan.d2").write_text("a -> b")
    assert run(server, tmp_path, "render", "plan.d2", "-o", "plan.png").returncode == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    piped = run(server, tmp_path, "render", "-", "--format", "mermaid", said=FLOW)
    assert piped.stdout.startswith("<svg")


def test_a_mistake_in_a_source_is_shown_with_its_line(server: Running, tmp_path: Path) -> None:
    (tmp_path / "flow.mmd").write_text("flowchart LR\n  one --\n")
    done = run(server, tmp_path, "render", "flow.mmd")
    assert done.returncode == 1
    assert done.stderr.startswith("coatcheck: flow.mmd: line ")
    assert not (tmp_path / "flow.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("flow.txt",), "--format"), (("flow.mmd", "-o", "flow.gif"), ".svg or .png")],
)
def test_a_name_that_says_nothing_is_asked_about(
    server: Running, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / arguments[0]).write_text(FLOW)
    done = run(server, tmp_path, "render", *arguments)
    assert (done.returncode, says in done.stderr) == (2, True)


def test_a_command_looks_as_if_it_ran_here(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "seq", "3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n2\n3\n", "")


def test_its_exit_code_and_last_words_come_along(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "ls", "/no/such/folder")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/no/such/folder" in done.stderr


def test_a_command_that_takes_too_long_is_ended(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--seconds", "0.5", "--", "sleep", "60")
    assert (done.returncode, "0.5 seconds" in done.stderr) == (124, True)


def test_a_command_that_is_not_allowed_is_not_run(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "sh", "-c", "id")
    assert (done.returncode, done.stdout) == (1, "")
    assert "denied by the rule" in done.stderr
