"""The command policy: deny wins, changes are reloaded, an invalid file changes nothing."""  # T14

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.tasks.runners import CommandPolicy


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "commands.toml"


def allowed(policy: CommandPolicy, *argv: str) -> bool:
    return policy.check(argv) is None


def test_deny_wins_and_is_the_default(file: Path) -> None:
    file.write_text('allow = ["echo", "git"]\ndeny = ["git push ..."]')
    policy = CommandPolicy(file)
    assert allowed(policy, "echo", "anything", "at all")
    assert allowed(policy, "git", "status")
    refused = policy.check(("git", "push", "origin"))
    assert refused is not None
    assert refused.rule == "git push ..."
    assert refused.message == "git: denied by the rule 'git push ...'"
    unknown = policy.check(("ls",))
    assert unknown is not None
    assert unknown.rule is None
    assert "no rule" in unknown.message


def test_arguments_are_matched_one_by_one(file: Path) -> None:
    file.write_text('allow = ["git log", "ls -l *", "head -n ? ...", "id \'\'"]')
    policy = CommandPolicy(file)
    assert allowed(policy, "git", "log")
    assert not allowed(policy, "git", "log", "--all")
    assert allowed(policy, "ls", "-l", "a b")
    assert not allowed(policy, "ls", "-l", "a", "b")
    assert not allowed(policy, "ls", "-l")
    assert allowed(policy, "head", "-n", "5")
    assert allowed(policy, "head", "-n", "5", "a", "b")
    assert not allowed(policy, "head", "-n", "50")
    assert not allowed(policy, "id", "x")


def test_rule_without_arguments_matches_any(file: Path) -> None:
    file.write_text('allow = ["*"]\ndeny = ["python*"]')
    policy = CommandPolicy(file)
    assert allowed(policy, "ls", "-l")
    assert not allowed(policy, "python3", "-c", "1")


def test_allowed_name_means_the_program_on_the_path(file: Path, tmp_path: Path) -> None:
    file.write_text('allow = ["true", "/opt/tools/*"]')
    other = tmp_path / "true"
    other.write_text("#!/bin/sh\n")
    policy = CommandPolicy(file)
    assert allowed(policy, "true")
    assert allowed(policy, "/usr/bin/true")
    assert not allowed(policy, str(other))
    assert not allowed(policy, "./true")
    assert allowed(policy, "/opt/tools/any")
    assert not allowed(policy, "/opt/tools/../../usr/bin/id")


def test_denied_name_means_every_file_of_that_name(file: Path) -> None:
    lies = Path("/bin/sh").resolve().name
    file.write_text(f'default = "allow"\ndeny = ["{lies}"]')
    policy = CommandPolicy(file)
    for called in ("sh", "/bin/sh", f"/anywhere/{lies}", f"./{lies}"):
        assert not allowed(policy, called), called
    assert allowed(policy, "true")


def test_changed_file_is_reloaded(file: Path) -> None:
    file.write_text('allow = ["ls"]')
    policy = CommandPolicy(file)
    assert not allowed(policy, "id")
    file.write_text('allow = ["id", "ls"]')
    assert allowed(policy, "id")
    other = file.with_suffix(".new")
    other.write_text('allow = ["w", "ls"]   ')
    other.rename(file)
    assert not allowed(policy, "id")
    assert policy.problem is None


@pytest.mark.parametrize(
    "broken",
    [
        "allow = [",
        'allow = "ls"',
        "allow = [1]",
        'permit = ["ls"]',
        'default = "maybe"',
        'allow = ["a \'b"]',
        'deny = ["... ls"]',
        'deny = [""]',
        None,
    ],
)
def test_invalid_file_keeps_the_previous_rules(
    file: Path, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file.write_text('allow = ["ls"]')
    policy = CommandPolicy(file)
    if broken is None:
        file.unlink()
    else:
        file.write_text(broken)
    with caplog.at_level(logging.ERROR, logger="coatcheck.tasks"):
        assert allowed(policy, "ls")
        assert not allowed(policy, "id")
    assert policy.problem is not None
    assert policy.problem.startswith("the previous rules are still in force: command policy")
    assert len(caplog.records) == 1, "once per change, not per command"
    with pytest.raises(ConfigurationError, match="command policy"):
        CommandPolicy(file)
    file.write_text('allow = ["id"]')
    assert allowed(policy, "id")
    assert policy.problem is None


@pytest.mark.parametrize(
    "argv", [("sh", "-c", "id"), ("bash",), ("/bin/sh",), ("sudo", "id"), ("env", "sh"), ("su",)]
)
def test_default_policy_denies_shells_and_privileges(argv: tuple[str, ...]) -> None:
    policy = CommandPolicy()
    assert not allowed(policy, *argv)


def test_default_policy_allows_other_programs_in_the_sandbox() -> None:
    policy = CommandPolicy()
    assert allowed(policy, "echo", "hello; sh")
    assert allowed(policy, "uname", "-a")
    assert allowed(policy, "env")


def test_default_policy_without_a_sandbox_allows_nothing() -> None:
    policy = CommandPolicy(sandboxed=False)
    assert not allowed(policy, "echo", "hello")
