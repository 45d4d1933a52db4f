"""Escaped text, tables that fit the terminal, and time formats."""

from __future__ import annotations

import json
import re
import unicodedata

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from coatcheck.cli.output.tables import TableColumn, lay_out, truncate
from coatcheck.cli.output.terminal import plain, pretty
from coatcheck.cli.output.time_format import read_moment, read_seconds, read_since, short

COMMAND = click.Command("any")
CONTEXT = click.Context(COMMAND)
PARAMETER = click.Option(["--any"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\e[31mred"),
        ("\x9b31m", r"\x9b31m"),
        ("a\nb\tc\rd", r"a\nb\tc\rd"),
        ("\x00\x07\x7f", r"\x00\x07\x7f"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("[bold]:smile:[/bold]", "[bold]:smile:[/bold]"),
        ("né 日本 👩\u200d🔧", "né 日本 👩\u200d🔧"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text())
def test_no_text_contains_control_characters_after_escaping(text: str) -> None:
    for letter in plain(text):
        assert unicodedata.category(letter) not in ("Cc", "Cs", "Zl", "Zp")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_pretty_json_is_the_same_json(value: object) -> None:
    text = pretty(value)

    assert json.loads(text) == json.loads(json.dumps(value))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)


@given(st.text(), st.integers(1, 40))
def test_truncated_text_fits_the_width(text: str, width: int) -> None:
    assert cell_len(truncate(plain(text), width)) <= width


COLUMNS = (TableColumn("ID"), TableColumn("KIND", 1), TableColumn("STATE"), TableColumn("WORDS", 2))
ROW = ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "report", "running", "a long message that goes on and on"]


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (200, "01ARZ3NDEKTSV4RRFFQ69G5FAV  report  running  a long message that goes on and on"),
        (60, "01ARZ3NDEKTSV4RRFFQ69G5FAV  report  running  a long message…"),
        (50, "01ARZ3NDEKTSV4RRFFQ69G5FAV  report  running"),
        (37, "01ARZ3NDEKTSV4RRFFQ69G5FAV  running"),
        (10, "01ARZ3NDEKTSV4RRFFQ69G5FAV  running"),
    ],
)
def test_table_drops_the_least_important_columns(width: int, shown: str) -> None:
    titles = [column.title for column in COLUMNS]
    assert lay_out(COLUMNS, [titles, ROW], width)[1] == shown


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (1500, "1.5s"),
        (59_000, "59s"),
        (60_000, "1m"),
        (90_000, "1m30s"),
        (3_600_000, "1h"),
        (3_900_000, "1h5m"),
        (86_400_000 * 2 + 3_600_000, "2d1h"),
    ],
)
def test_duration_is_formatted(milliseconds: int, shown: str) -> None:
    assert short(milliseconds) == shown


def test_times_are_parsed() -> None:
    assert read_seconds(CONTEXT, PARAMETER, "90") == 90
    assert read_seconds(CONTEXT, PARAMETER, "1h30m") == 5400
    assert read_since(CONTEXT, PARAMETER, "2030-01-31T10:00:00+01:00") == "2030-01-31T09:00:00.000Z"
    ago, (later, from_now) = read_since(CONTEXT, PARAMETER, "1h"), read_moment("1h")
    assert ago is not None
    assert ago < later
    assert from_now
    assert read_moment("2030-01-31T09:00:00Z") == ("2030-01-31T09:00:00.000Z", False)
    assert read_since(CONTEXT, PARAMETER, None) is None


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-01-31", "-1h", "99999999999999d", "nan"])
def test_invalid_time_is_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter):
        read_since(CONTEXT, PARAMETER, text)
    with pytest.raises(click.BadParameter):
        read_moment(text)


@pytest.mark.parametrize("text", ["", "0", "-1", "nan", "inf", "soon"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(click.BadParameter):
        read_seconds(CONTEXT, PARAMETER, text)
