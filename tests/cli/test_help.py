"""The help texts of the command line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coatcheck.cli import main
from coatcheck.cli.main import cli
from tests.cli.processes import run_to_end

SUBCOMMANDS = (
    *(
        "audit",
        "backup",
        "completion",
        "demo",
        "doctor",
        "exec",
        "fetch-model",
        "graph",
        "ingest",
        "jobs",
        "keys",
        "kinds",
        "mcp",
        "migrate",
        "queues",
        "render",
        "reseal",
        "schedules",
        "search",
        "serve",
    ),
    *("submit", "tenants", "watch", "webhooks", "worker"),
)


def every_command(group: click.Group = cli, *above: str) -> Iterator[tuple[str, ...]]:
    """Return the words of every command and every command of a group."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        command = group.get_command(ctx, name)
        yield (*above, name)
        if isinstance(command, click.Group):
            yield from every_command(command, *above, name)


COMMANDS = sorted(every_command())
in_every_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def test_help_shows_a_first_example_and_every_command(tmp_path: Path) -> None:
    shown = run_to_end("--help", folder=tmp_path)

    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "coatcheck serve tasks:app" in shown.stdout
    for name in SUBCOMMANDS:
        assert re.search(rf"^  {name} +\w", shown.stdout, re.MULTILINE)


def test_example_in_the_help_can_be_copied(tmp_path: Path) -> None:
    lines = [line.strip() for line in run_to_end("--help", folder=tmp_path).stdout.splitlines()]

    assert "from coatcheck import App, Context" in lines
    assert "app = App()" in lines
    assert "@app.job" in lines
    assert "async def greet(ctx: Context, name: str) -> str:" in lines


def test_every_command_is_listed_here() -> None:
    assert tuple(sorted(main.COMMANDS)) == SUBCOMMANDS


def shown_help(words: Sequence[str]) -> str:
    """Return what a command says of itself, without starting a process for each."""
    shown = CliRunner().invoke(cli, [*words, "-h"], prog_name="coatcheck")
    assert shown.exit_code == 0
    return shown.stdout


@in_every_command
def test_help_explains_the_command_and_each_option(words: Sequence[str]) -> None:
    explanation, options = shown_help(words).split("\nOptions:\n")
    assert len(explanation.splitlines()) >= 3, "more than the usage line"
    for option in re.split(r"\n(?=  -)", "\n" + options.split("\n\n")[0])[1:]:
        flag, *rest = option.split()
        assert any(word.endswith(".") for word in rest), f"{flag} is not explained by a sentence"


@in_every_command
def test_help_has_examples_that_parse(words: Sequence[str]) -> None:
    examples = examples_in(shown_help(words))
    assert any(example[: len(words)] == list(words) for example in examples)
    for example in examples:
        parse(example)


def examples_in(shown: str) -> list[list[str]]:
    """Return the arguments of each call of ours in the examples, as a shell would pass them."""
    block = shown.split("Examples:\n")[1].split("\n\n", maxsplit=1)[0]
    block = block.replace("|\n", "| ")
    found = []
    for line in block.splitlines():
        words = shlex.split(re.sub(r"\$\(|\)\"?|\"(?=\$)", " ", line), comments=True)
        while "coatcheck" in words:
            at = words.index("coatcheck")
            given = ["ID"] if words[at - 1] == "xargs" else []
            words = words[at + 1 :]
            ends = [at for at, word in enumerate(words) if word in ("|", ">", "&&", "coatcheck")]
            found.append(words[: min(ends, default=len(words))] + given)
    return found


def parse(arguments: list[str]) -> None:
    """Have click read the arguments of a command, down to the one that would run."""
    command: click.Command = cli
    parent: click.Context | None = None
    while isinstance(command, click.Group) and arguments:
        settings = command.context_settings
        parent = click.Context(command, parent=parent, info_name=command.name, **settings)
        found = command.get_command(parent, arguments[0])
        assert found is not None, f"no command {arguments[0]}"
        command, arguments = found, arguments[1:]
    with command.make_context(command.name, list(arguments), parent=parent):
        pass


def test_help_of_serve_has_examples_and_hides_internal_options(
    tmp_path: Path,
) -> None:
    shown = run_to_end("serve", "--help", folder=tmp_path).stdout

    assert "Examples:\n      coatcheck serve tasks:app\n" in shown
    assert "--supervisor-pipe" not in shown
    assert "--socket" not in shown


def test_version_is_the_installed_one(tmp_path: Path) -> None:
    shown = run_to_end("--version", folder=tmp_path)

    assert shown.returncode == 0
    assert shown.stdout.rstrip().endswith(version("coatcheck"))


@pytest.mark.parametrize(
    "arguments",
    [["sevre"], ["watch"], ["serve", "tasks:app", "--prot", "1"], ["migrate", "--port"]],
)
def test_mistyped_command_prints_usage(tmp_path: Path, arguments: list[str]) -> None:
    ended = run_to_end(*arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert "Usage: " in ended.stderr
    assert "Traceback" not in ended.stderr
