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


def test_render_writes_an_image_beside_the_source(server: Running, tmp_path: Path) -> None:
    (tmp_path / "flow.mmd").write_text(FLOW)
    done = run(server, tmp_path, "render", "flow.mmd")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.startswith("flow.svg  (")
    assert (tmp_path / "flow.svg").read_text().startswith("<svg")


def test_render_writes_to_the_output_option(server: Running, tmp_path: Path) -> None:
    (tmp_path / "plan.d2").write_text("a -> b")
    assert run(server, tmp_path, "render", "plan.d2", "-o", "plan.png").returncode == 0
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    piped = run(server, tmp_path, "render", "-", "--format", "mermaid", said=FLOW)
    assert piped.stdout.startswith("<svg")


def test_syntax_error_in_a_diagram_shows_its_line(server: Running, tmp_path: Path) -> None:
    (tmp_path / "flow.mmd").write_text("flowchart LR\n  one --\n")
    done = run(server, tmp_path, "render", "flow.mmd")
    assert done.returncode == 1
    assert done.stderr.startswith("coatcheck: flow.mmd: line ")
    assert not (tmp_path / "flow.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("flow.txt",), "--format"), (("flow.mmd", "-o", "flow.gif"), ".svg or .png")],
)
def test_unknown_file_name_needs_format_option(
    server: Running, tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    (tmp_path / arguments[0]).write_text(FLOW)
    done = run(server, tmp_path, "render", *arguments)
    assert (done.returncode, says in done.stderr) == (2, True)


def test_exec_prints_the_output_of_the_command(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "seq", "3")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n2\n3\n", "")


def test_exec_returns_exit_code_and_stderr(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "ls", "/no/such/folder")
    assert (done.returncode, done.stdout) == (2, "")
    assert "/no/such/folder" in done.stderr


def test_exec_times_out(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--seconds", "0.5", "--", "sleep", "60")
    assert (done.returncode, "0.5 seconds" in done.stderr) == (124, True)


def test_exec_rejects_forbidden_commands(server: Running, tmp_path: Path) -> None:
    done = run(server, tmp_path, "exec", "--", "sh", "-c", "id")
    assert (done.returncode, done.stdout) == (1, "")
    assert "denied by the rule" in done.stderr
