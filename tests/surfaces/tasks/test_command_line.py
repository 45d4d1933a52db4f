"""A command line is split without a shell, and shell syntax is rejected."""

from __future__ import annotations

import pytest

from coatcheck.surfaces.tasks.runners import InvalidCommand, check_arguments, read_command_line


@pytest.mark.parametrize(
    ("line", "argv"),
    [
        ("echo hello", ("echo", "hello")),
        ("  echo   'two words'  ", ("echo", "two words")),
        ("echo \"a;b|c>d\" '$(x) `y` $HOME'", ("echo", "a;b|c>d", "$(x) `y` $HOME")),
        (r"echo a\;b \$HOME 5$ a$/b", ("echo", "a;b", "$HOME", "5$", "a$/b")),
        ("find . -exec ls {} ';'", ("find", ".", "-exec", "ls", "{}", ";")),
        ("expr 2 * 3", ("expr", "2", "*", "3")),
        ("echo ''", ("echo", "")),
        ("echo naïve ☂ # not a comment", ("echo", "naïve", "☂", "#", "not", "a", "comment")),
    ],
)
def test_quotes_and_backslashes(line: str, argv: tuple[str, ...]) -> None:
    assert read_command_line(line) == argv


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("cat a | sh", "|"),
        ("true; reboot", ";"),
        ("true && reboot", "&"),
        ("sleep 9 &", "&"),
        ("echo x > /etc/passwd", ">"),
        ("cat < /etc/passwd", "<"),
        ("(true)", "("),
        ("echo `id`", "`"),
        ('echo "`id`"', "`"),
        ("echo $(id)", "$("),
        ('echo "$(id)"', "$("),
        ("echo $HOME", "$H"),
        ("echo ${HOME}", "${"),
        ("true\nreboot", "a line break"),
    ],
)
def test_shell_syntax_is_rejected(line: str, what: str) -> None:
    with pytest.raises(InvalidCommand) as refused:
        read_command_line(line)
    assert str(refused.value).startswith(f"{what} at character ")
    assert "no shell interprets this" in str(refused.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("''", "empty"),
        ("echo 'open", "cannot be parsed: no closing quotation"),
        ("echo \\", "cannot be parsed"),
        ("echo a\0b", "NUL"),
        ("echo " + "x" * 40_000, "longer than 32768 characters"),
        ("echo " + "x " * 2_000, "more than 1024 arguments"),
        ("A=b env", "a variable is set"),
        ("echo \ud800", "half a character"),
    ],
)
def test_invalid_command_is_rejected(line: str, says: str) -> None:
    with pytest.raises(InvalidCommand, match=says):
        read_command_line(line)


@pytest.mark.parametrize("argv", [(), ("",), ("echo", "a\0"), ("echo", "☂" * 30_000)])
def test_invalid_arguments_are_rejected(argv: tuple[str, ...]) -> None:
    with pytest.raises(InvalidCommand):
        check_arguments(argv)
