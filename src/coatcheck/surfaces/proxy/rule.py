"""Proxy rules: which calls are forwarded, to which service, and with which options.

A rule matches a method and a path, `POST /reports/*`. `*` stands for a whole segment: in the middle
for one, at the end for everything below. Paths are compared decoded, as they are routed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from coatcheck.errors import ConfigurationError
from coatcheck.http.routes import ENDPOINTS
from coatcheck.model.duration import milliseconds
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.relay.handler import CallTerms, OnHangup
from coatcheck.relay.intake import IntakeOptions

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ANY = "*"
SURFACE = "proxy"
PREFIX = "proxy."
# Idempotent as HTTP defines it (RFC 9110, 9.2.2).
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE", "OPTIONS"})
MAX_WAIT_S = 3600.0
# First segments of the canonical API and its pages.
RESERVED = frozenset({*(each.path.split("/")[1] for each in ENDPOINTS), "ui", "mcp"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_SEGMENT = re.compile(r"[A-Za-z0-9._~!$&'()+,;=:@-]+")


class RoutePattern(NamedTuple):
    """A method, and the segments of a path."""

    method: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, what: str) -> RoutePattern:
        """Parse a pattern; raises ConfigurationError. `what` names it in errors."""
        method, space, path = text.partition(" ")
        if not space or method not in METHODS or not path.startswith("/"):
            raise ConfigurationError(
                f"{what}: {text!r} is not a method and a path, such as POST /reports/*; the "
                f"methods are {', '.join(METHODS)} (GET includes HEAD)"
            )
        segments = tuple(path[1:].split("/")) if path != "/" else ()
        for segment in segments:
            if segment != ANY and (not _SEGMENT.fullmatch(segment) or segment in (".", "..")):
                raise ConfigurationError(
                    f"{what}: {text!r} has the segment {segment!r}; a segment is *, or letters, "
                    "digits and - . _ ~ ! $ & ' ( ) + , ; = : @"
                )
        return cls(method, segments)

    def __str__(self) -> str:
        return f"{self.method} /{'/'.join(self.segments)}"

    @property
    def route(self) -> str:
        """The path in the router's syntax."""
        *first, last = self.segments or ("",)
        parts = [f"{{s{n}}}" if each == ANY else each for n, each in enumerate(first)]
        return "/" + "/".join([*parts, "{rest:path}" if last == ANY else last])

    def matches(self, method: str, path: str) -> bool:
        """Return whether a call matches; `path` is as it was written, with its query."""
        if method != self.method and (method, self.method) != ("HEAD", "GET"):
            return False
        decoded = unquote(path.partition("?")[0])
        return _match(self.segments, decoded[1:].split("/") if decoded != "/" else [])

    def overlaps(self, other: RoutePattern) -> bool:
        """Return whether some call matches both patterns."""
        return self.method == other.method and _overlap(self.segments, other.segments)


def _match(pattern: Sequence[str], segments: Sequence[str]) -> bool:
    for number, wanted in enumerate(pattern):
        if wanted == ANY and number == len(pattern) - 1:
            return len(segments) > number
        if number >= len(segments):
            return False
        if wanted == ANY:
            if not segments[number]:
                return False
        elif wanted != segments[number]:
            return False
    return len(segments) == len(pattern)


def _overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    for number in range(max(len(one), len(other))):
        ends = [len(each) == number + 1 and each[number] == ANY for each in (one, other)]
        if any(ends):  # matches everything below, if the other has at least one segment here
            return len(one) > number and len(other) > number
        if number >= min(len(one), len(other)):
            return False
        if ANY not in (one[number], other[number]) and one[number] != other[number]:
            return False
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[proxy]]` table of the config file."""

    match: RoutePattern
    target: str
    name: str
    timeout_s: float = 3600.0
    retries: int = 2
    retry_statuses: frozenset[int] = frozenset()
    wait_s: float = 10.0
    repeatable: bool = False
    headers: frozenset[str] | None = None
    secret_headers: frozenset[str] = frozenset()
    credentials: Literal["seal", "drop"] = "seal"
    on_hangup: OnHangup = "continue"
    concurrency: int | None = None
    keep_s: float = 86_400.0

    @property
    def kind(self) -> str:
        """The kind of its jobs, and the name of their queue."""
        return PREFIX + self.name

    @property
    def terms(self) -> CallTerms:
        """The options of its calls."""
        return CallTerms(
            self.kind,
            SURFACE,
            timeout_s=self.timeout_s,
            retries=self.retries,
            retry_statuses=self.retry_statuses,
            repeatable=self.repeatable,
            on_hangup=self.on_hangup,
        )

    @property
    def intake(self) -> IntakeOptions:
        """The options for storing its requests."""
        return IntakeOptions(
            self.kind,
            headers=self.headers,
            credentials=self.credentials,
            secret=self.secret_headers,
        )


def read_rules(tables: Sequence[Mapping[str, Any]]) -> list[Rule]:
    """Read the rules; raises a ConfigurationError that names the wrong one."""
    rules: list[Rule] = []
    for number, table in enumerate(tables, 1):
        rule = _read(table, f"[[proxy]] {number}")
        for other in rules:
            if other.match.overlaps(rule.match):
                raise ConfigurationError(
                    f"[[proxy]] {number}: {rule.match} overlaps with {other.match}; a call must "
                    "match one rule only"
                )
            if other.name == rule.name:
                raise ConfigurationError(
                    f"[[proxy]] {number}: there is already a rule {rule.name!r}; set another name"
                )
        rules.append(rule)
    return rules


def _read(table: Mapping[str, Any], what: str) -> Rule:
    unknown = sorted(table.keys() - _READERS.keys() - {"match"})
    if unknown:
        known = ", ".join(sorted((*_READERS, "match")))
        raise ConfigurationError(f"{what}: unknown key {unknown[0]!r}; the keys are: {known}")
    for needed in ("match", "target"):
        if needed not in table:
            raise ConfigurationError(f"{what}: {needed} is missing")
    match = RoutePattern.parse(_text(table["match"], f"{what}: match"), f"{what}: match")
    _check_reserved(match, what)
    values: dict[str, Any] = {"name": _slug(match), "repeatable": match.method in IDEMPOTENT}
    for key, value in table.items():
        if key != "match":
            field, read = _READERS[key]
            values[field] = read(value, f"{what}: {key}")
    return Rule(match=match, **values)


def _check_reserved(match: RoutePattern, what: str) -> None:
    first = match.segments[0] if match.segments else ""
    if first in RESERVED:
        raise ConfigurationError(
            f"{what}: match: /{first} belongs to Coatcheck's own API; use another path"
        )


def _slug(match: RoutePattern) -> str:
    words = [match.method.lower(), *(each for each in match.segments if each != ANY)]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(words))[:80]


# --- readers of the keys

Reader = Callable[[Any, str], Any]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{what} is a string, not {value!r}")
    return value


def _name(value: Any, what: str) -> str:
    if not is_name(_text(value, what)) or len(value) > 80 or ":" in value:
        raise ConfigurationError(f"{what}: {value!r} cannot name a rule: {NAME_RULE}, no colon")
    return str(value)


def _target(value: Any, what: str) -> str:
    wrong = f"{what}: {value!r} is not a service's address, such as http://127.0.0.1:9000"
    try:
        parts = urlsplit(_text(value, what))
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise ConfigurationError(wrong) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{what}: the address must not contain a user name or a password")
    if not fits or parts.query or parts.fragment or not value.isascii() or " " in value:
        raise ConfigurationError(wrong)
    return str(value).rstrip("/")


def _seconds(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ConfigurationError(f'{what}: write seconds (90) or "15m", not {value!r}')
    return milliseconds(value, what) / 1000


def _wait(value: Any, what: str) -> float:
    if value in (0, "0", "0s") and value is not False:
        return 0.0
    seconds = _seconds(value, what)
    if seconds > MAX_WAIT_S:
        raise ConfigurationError(f"{what} is at most an hour, not {value!r}")
    return seconds


def _whole(least: int, most: int) -> Reader:
    def read(value: Any, what: str) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ConfigurationError(f"{what} is a whole number from {least} to {most:,}")
        return value

    return read


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(f"{what} is true or false, not {value!r}")
    return value


def _statuses(value: Any, what: str) -> frozenset[int]:
    fits = isinstance(value, list) and all(
        type(each) is int and 200 <= each < 600 for each in value
    )
    if not fits:
        raise ConfigurationError(f"{what} is a list of statuses, such as [502, 503], not {value!r}")
    return frozenset(value)


def _header_names(value: Any, what: str) -> frozenset[str]:
    fits = isinstance(value, list) and all(
        isinstance(each, str) and _HEADER.fullmatch(each) for each in value
    )
    if not fits:
        raise ConfigurationError(f"{what} is a list of header names, not {value!r}")
    return frozenset(each.lower() for each in value)


def _chosen_headers(value: Any, what: str) -> frozenset[str] | None:
    return None if value == ["*"] else _header_names(value, what)


def _one_of(*words: str) -> Reader:
    def read(value: Any, what: str) -> str:
        if value not in words:
            raise ConfigurationError(f"{what} is {' or '.join(words)}, not {value!r}")
        return str(value)

    return read


_READERS: dict[str, tuple[str, Reader]] = {
    "target": ("target", _target),
    "name": ("name", _name),
    "timeout": ("timeout_s", _seconds),
    "retries": ("retries", _whole(0, 100)),
    "retry_statuses": ("retry_statuses", _statuses),
    "wait": ("wait_s", _wait),
    "repeatable": ("repeatable", _flag),
    "headers": ("headers", _chosen_headers),
    "secret_headers": ("secret_headers", _header_names),
    "credentials": ("credentials", _one_of("seal", "drop")),
    "on_hangup": ("on_hangup", _one_of("continue", "cancel")),
    "concurrency": ("concurrency", _whole(1, 1_000_000)),
    "keep": ("keep_s", _seconds),
}
KEYS = frozenset({"match", *_READERS})
