"""Shell completion: the scripts and the completions."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from coatcheck import Client
from tests.cli.shell import Shell


def proposed(shell: Shell, words: str, **settings: str) -> list[str]:
    """Return what is proposed for the last word of a line."""
    ended = shell.run(
        _COATCHECK_COMPLETE="bash_complete",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split(" ")) - 1),
        **settings,
    )
    assert ended.stderr == ""
    return [line.partition(",")[2] for line in ended.stdout.splitlines() if line]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_script_is_valid_in_its_shell(shell: Shell, name: str) -> None:
    ended = shell.run("completion", name)

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "_COATCHECK_COMPLETE" in ended.stdout
    if shutil.which(name):
        subprocess.run([name, "-n"], input=ended.stdout, text=True, check=True)


def test_commands_are_completed(shell: Shell) -> None:
    assert proposed(shell, "coatcheck ki") == ["kinds"]


def test_kinds_and_ids_are_completed_from_the_server(shell: Shell, client: Client) -> None:
    job = client.submit("echo", 1)

    assert proposed(shell, "coatcheck submit ec") == ["echo"]
    assert job.id in proposed(shell, "coatcheck jobs show ")


def test_completion_is_empty_and_silent_without_a_server(shell: Shell) -> None:
    assert proposed(shell, "coatcheck submit ", COATCHECK_URL="http://127.0.0.1:1") == []
