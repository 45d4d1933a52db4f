"""What the command line says of itself."""

from __future__ import annotations

import re
from importlib.metadata import version
from pathlib import Path

import pytest

from coatcheck.cli.main import cli
from tests.cli.processes import run_to_end

SUBCOMMANDS = ("backup", "demo", "migrate", "serve", "worker")


def test_help_shows_how_to_begin_and_every_command(tmp_path: Path) -> None:
    shown = run_to_end("--help", folder=tmp_path)

    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "coatcheck serve tasks:app" in shown.stdout
    for name in SUBCOMMANDS:
        assert re.search(rf"^  {name} +\w", shown.stdout, re.MULTILINE)


def test_the_example_in_the_help_can_be_copied_as_it_stands(tmp_path: Path) -> None:
    lines = [line.strip() for line in run_to_end("--help", folder=tmp_path).stdout.splitlines()]

    assert "from coatcheck import App, Context" in lines
    assert "app = App()" in lines
    assert "@app.job" in lines
    assert "async def greet(ctx: Context, name: str) -> str:" in lines


def test_no_command_is_left_out_here() -> None:
    assert tuple(sorted(cli.commands)) == SUBCOMMANDS


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_help_of_a_command_explains_it_and_each_of_its_options(
    tmp_path: Path, name: str
) -> None:
    shown = run_to_end(name, "-h", folder=tmp_path)

    assert shown.returncode == 0
    explanation, options = shown.stdout.split("\nOptions:\n")
    assert len(explanation.splitlines()) >= 3, "more than the usage line"
    for option in re.split(r"\n(?=  -)", "\n" + options)[1:]:
        flag, *words = option.split()
        assert any(word.endswith(".") for word in words), f"{flag} is not explained by a sentence"


def test_the_help_of_serve_has_examples_and_hides_what_our_own_processes_use(
    tmp_path: Path,
) -> None:
    shown = run_to_end("serve", "--help", folder=tmp_path).stdout

    assert "Examples:\n      coatcheck serve tasks:app\n" in shown
    assert "--supervisor-pipe" not in shown
    assert "--socket" not in shown


def test_the_version_is_the_installed_one(tmp_path: Path) -> None:
    shown = run_to_end("--version", folder=tmp_path)

    assert shown.returncode == 0
    assert shown.stdout.rstrip().endswith(version("coatcheck"))


@pytest.mark.parametrize(
    "arguments",
    [["sevre"], ["serve"], ["serve", "tasks:app", "--prot", "1"], ["migrate", "--port"]],
)
def test_a_mistyped_command_is_answered_with_its_usage(
    tmp_path: Path, arguments: list[str]
) -> None:
    ended = run_to_end(*arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert "Usage: " in ended.stderr
    assert "Traceback" not in ended.stderr
