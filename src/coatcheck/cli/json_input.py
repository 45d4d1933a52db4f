"""JSON that is given to a command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


def read_input(text: str) -> Any:
    """Read JSON that was given as it is, as @FILE, or as - for stdin."""
    if text == "-":
        with click.open_file("-", encoding="utf-8") as stream:
            return _parse(_content(stream.read, "stdin"), "what came on stdin")
    if text.startswith("@"):
        path = Path(text[1:])
        return _parse(_content(lambda: path.read_text(encoding="utf-8"), str(path)), str(path))
    return _parse(text, "the input")


def _content(read: Any, where: str) -> str:
    try:
        return str(read())
    except OSError as error:
        raise click.UsageError(f"cannot read {where}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"cannot read {where}: it is not UTF-8") from None


def _parse(text: str, what: str) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_object)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        hint = f"; for a text write '\"{text}\"'" if text.isidentifier() else ""
        place = f"line {error.lineno}, column {error.colno}"
        raise click.UsageError(f"{what} is not JSON: {error.msg} ({place}){hint}") from None
    except UnicodeEncodeError:
        raise click.UsageError(f"{what} cannot be sent: it has half a character") from None
    except RecursionError:
        raise click.UsageError(f"{what} cannot be sent: it is nested too deep") from None
    except ValueError as error:
        raise click.UsageError(f"{what} cannot be sent: {error}") from None
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has an object with the same key twice")
    return found
