"""What the logs look like, and what never gets into them."""

from __future__ import annotations

import io
import json
import logging
import re
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from coatcheck.logs import JsonFormatter, TextFormatter, configure_logging, correlation_id
from coatcheck.settings import Settings

SECRET = "the password is swordfish"


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def correlation() -> Iterator[str]:
    token = correlation_id.set("order-4711")
    yield "order-4711"
    correlation_id.reset(token)


@pytest.fixture
def untouched_logging() -> Iterator[None]:
    """Put the logging of this process back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("coatcheck")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    show = warnings.showwarning
    yield
    warnings.showwarning = show
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def _record(message: str = "swept", *args: object, **fields: Any) -> logging.LogRecord:
    logger = logging.getLogger("coatcheck.test")
    record = logger.makeRecord(
        logger.name, logging.WARNING, __file__, 1, message, args, None, extra=fields
    )
    record.created = 2_000_000_000.5
    return record


def _failed_record() -> logging.LogRecord:
    def open_the_door() -> None:
        raise RuntimeError(SECRET)

    record = _record("handler failed")
    try:
        open_the_door()
    except RuntimeError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    return record


def _json(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(record)
    assert "\n" not in line
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_json_line_says_when_how_bad_where_and_what() -> None:
    assert _json(_record("%d jobs deleted", 3)) == {
        "time": "2033-05-18T03:33:20.500Z",
        "level": "warning",
        "logger": "coatcheck.test",
        "message": "3 jobs deleted",
    }


def test_the_fields_of_a_call_are_fields_of_the_json_line() -> None:
    line = _json(_record(job_id="01ARZ3NDEKTSV4RRFFQ69G5FAV", jobs=3, kinds=["echo"], why=None))

    assert line["job_id"] == "01ARZ3NDEKTSV4RRFFQ69G5FAV"
    assert line["jobs"] == 3
    assert line["kinds"] == ["echo"]
    assert line["why"] is None


@pytest.mark.parametrize(
    "text", ["two\nlines", "tab\t", "\x1b[31mred", "\u2028", "naïve 🎟️", "\ud800"]
)
def test_any_text_stays_on_its_json_line(text: str) -> None:
    line = _json(_record(text, why=text))

    assert line["message"] == line["why"] == text


def test_what_json_cannot_write_is_written_as_text() -> None:
    line = _json(_record(why=ValueError("too bad"), kinds={"echo"}))

    assert line["why"] == "too bad"
    assert line["kinds"] == "{'echo'}"


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_line_carries_the_id_of_the_request_it_belongs_to(
    formatter: logging.Formatter, correlation: str
) -> None:
    assert correlation in formatter.format(_record())


def test_an_id_given_with_the_call_goes_before_that_of_the_request(correlation: str) -> None:
    assert _json(_record(correlation_id="job-1"))["correlation_id"] == "job-1"
    assert _json(_record(correlation_id=None))["correlation_id"] == correlation


def test_there_is_no_id_where_there_is_no_request() -> None:
    assert "correlation_id" not in _json(_record())


def test_an_exception_is_told_by_its_type_and_places() -> None:
    line = _json(_failed_record())

    assert line["error_type"] == "RuntimeError"
    assert re.fullmatch(r"open_the_door \(.*test_logs\.py:\d+\)", line["traceback"][0])
    assert line["traceback"][1].startswith("_failed_record (")


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_what_an_exception_says_is_never_written(formatter: logging.Formatter) -> None:
    line = formatter.format(_failed_record())

    assert SECRET not in line
    assert "raise RuntimeError" not in line, "nor its source"
    assert "RuntimeError" in line
    assert "open_the_door" in line


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_a_cause_of_an_exception_is_not_written_either(formatter: logging.Formatter) -> None:
    record = _record("a request failed")
    try:
        try:
            raise RuntimeError(SECRET)
        except RuntimeError as cause:
            raise KeyError("outer") from cause
    except KeyError as error:
        record.exc_info = (type(error), error, error.__traceback__)

    assert SECRET not in formatter.format(record)


@pytest.mark.parametrize("formatter", [JsonFormatter(), TextFormatter()])
def test_exc_info_without_an_exception_is_nothing(formatter: logging.Formatter) -> None:
    record = _record()
    record.exc_info = (None, None, None)

    assert "error_type" not in formatter.format(record)


def test_a_line_for_people_is_short() -> None:
    line = TextFormatter().format(_record("swept", deleted=3, kinds=["echo"]))

    assert line == "03:33:20.500 warning swept  deleted=3 kinds=['echo']"


def test_a_line_for_people_without_fields_ends_with_its_message() -> None:
    assert TextFormatter().format(_record("swept")) == "03:33:20.500 warning swept"


@pytest.mark.parametrize(
    ("log_format", "kind_of_stream", "is_json"),
    [
        ("auto", io.StringIO, True),
        ("auto", Terminal, False),
        ("json", Terminal, True),
        ("text", io.StringIO, False),
    ],
    ids=["auto, no terminal", "auto, terminal", "json", "text"],
)
@pytest.mark.usefixtures("untouched_logging")
def test_the_format_is_what_was_asked_for_or_what_the_stream_is_for(
    log_format: str, kind_of_stream: type[io.StringIO], is_json: bool
) -> None:
    stream = kind_of_stream()
    configure_logging(Settings(log_format=log_format), stream)

    logging.getLogger("coatcheck.test").info("worker started")

    [line] = stream.getvalue().splitlines()
    assert line.startswith("{") == is_json
    assert "worker started" in line


@pytest.mark.usefixtures("untouched_logging")
def test_the_level_is_for_our_own_logs_and_others_are_heard_from_warning_on() -> None:
    stream = io.StringIO()
    configure_logging(Settings(log_level="debug"), stream)

    logging.getLogger("coatcheck.test").debug("ours")
    logging.getLogger("another.library").info("unasked")
    logging.getLogger("another.library").warning("important")

    assert [json.loads(line)["message"] for line in stream.getvalue().splitlines()] == [
        "ours",
        "important",
    ]


@pytest.mark.usefixtures("untouched_logging")
def test_configuring_twice_does_not_log_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(Settings(), first)
    configure_logging(Settings(), second)

    logging.getLogger("coatcheck.test").info("worker started")

    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_a_line_for_people_is_one_line_and_leaves_the_terminal_alone() -> None:
    line = TextFormatter().format(_record("a\x1b[2Jb", kind="x\r\nlevel=error done", é="ü\u2028ü"))

    assert line.isprintable()
    assert line.endswith(r"a\x1b[2Jb  kind=x\r\nlevel=error done é=ü\u2028ü")


@pytest.mark.usefixtures("untouched_logging")
def test_a_warning_of_a_library_is_a_line_like_others_without_its_words() -> None:
    written = io.StringIO()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure_logging(Settings(log_format="json"), written)
        warnings.warn_explicit(SECRET, UserWarning, "library.py", 7)

    [line] = [json.loads(line) for line in written.getvalue().splitlines()]
    assert (line["warning"], line["place"]) == ("UserWarning", "library.py:7")
    assert SECRET not in written.getvalue()
