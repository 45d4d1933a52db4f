"""Logging: JSON lines for machines, plain lines on a terminal, each with its correlation id.

No log line contains an input, a result, a secret or source text: only ids, kinds, states, counts
and times.
"""

from __future__ import annotations

import contextvars
import json
import logging
import sys
import traceback
import warnings
from typing import Any, TextIO

from coatcheck.clock import to_rfc3339
from coatcheck.settings import Settings

correlation_id: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "coatcheck_correlation_id", default=None
)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as a line of JSON: time, level, logger, message, correlation id and extra
    fields.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line of JSON."""
        line: dict[str, Any] = {
            "time": to_rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = _extra(record)
        if (correlation := fields.pop("correlation_id", None) or correlation_id.get()) is not None:
            line["correlation_id"] = correlation
        line.update(fields)
        if record.exc_info and record.exc_info[0] is not None:
            line["error_type"] = record.exc_info[0].__name__
            line["traceback"] = _where(record)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Formats a record as a line of text for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as a line of text."""
        moment = to_rfc3339(int(record.created * 1000))[11:23]
        extra = _extra(record)
        if extra.get("correlation_id") is None and (current := correlation_id.get()) is not None:
            extra["correlation_id"] = current
        fields = " ".join(f"{name}={value}" for name, value in extra.items())
        line = f"{moment} {record.levelname.lower():<7} {record.getMessage()}"
        if record.exc_info and record.exc_info[0] is not None:
            fields += f" error_type={record.exc_info[0].__name__} at {' < '.join(_where(record))}"
        return _printable(f"{line}  {fields}".rstrip())


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Send the logs of this process to `stream` (default stderr), in the configured format."""
    stream = stream or sys.stderr
    as_text = settings.log_format == "text" or (settings.log_format == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if as_text else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    warnings.showwarning = _log_warning
    logging.getLogger("coatcheck").setLevel(settings.log_level.upper())


def _log_warning(
    message: Warning | str,  # noqa: ARG001 - see below
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,  # noqa: ARG001
    line: str | None = None,  # noqa: ARG001
) -> None:
    # Log only its category and location: its message may contain user data, and Python's own lines
    # have another format.
    fields = {"warning": category.__name__, "place": f"{filename}:{lineno}"}
    logging.getLogger("coatcheck").warning("library warning", extra=fields)


def _printable(line: str) -> str:
    """Escape characters that could start another line or move a terminal's cursor."""
    if line.isprintable():
        return line
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in line
    )


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _where(record: logging.LogRecord) -> list[str]:
    # Locations only: source lines and exception messages may contain user data.
    frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else []
    return [f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in reversed(frames[-8:])]
