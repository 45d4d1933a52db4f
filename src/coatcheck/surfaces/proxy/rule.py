"""A rule: which calls are handed on, where to, and what was agreed about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError
from coatcheck.http.routes import ENDPOINTS
from coatcheck.model.duration import milliseconds
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.relay.handler import CallTerms, OnHangup
from coatcheck.relay.intake import IntakeOptions
from coatcheck.surfaces.proxy.pattern import ANY, RoutePattern

SURFACE = "proxy"
PREFIX = "proxy."
# May be made twice, as HTTP itself has it (RFC 9110, 9.2.2).
IDEMPOTENT = frozenset({"GET", "PUT", "DELETE", "OPTIONS"})
MAX_WAIT_S = 3600.0
# The canonical API's own, and its pages'.
RESERVED = frozenset({*(each.path.split("/")[1] for each in ENDPOINTS), "ui", "mcp"})
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


@dataclass(frozen=True, slots=True)
class Rule:
    """One `[[proxy]]` of the config file."""

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
        """What was agreed about its calls."""
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
    def keeps(self) -> IntakeOptions:
        """What of its requests is kept."""
        return IntakeOptions(
            self.kind,
            headers=self.headers,
            credentials=self.credentials,
            secret=self.secret_headers,
        )


def read_rules(tables: Sequence[Mapping[str, Any]]) -> list[Rule]:
    """Read the rules; raises ConfigurationError that says which one is wrong, and how."""
    rules: list[Rule] = []
    for number, table in enumerate(tables, 1):
        rule = _read(table, f"[[proxy]] {number}")
        for other in rules:
            if other.match.overlaps(rule.match):
                raise ConfigurationError(
                    f"[[proxy]] {number}: {rule.match} overlaps with {other.match}; one call needs "
                    "one rule"
                )
            if other.name == rule.name:
                raise ConfigurationError(
                    f"[[proxy]] {number}: there is a rule {rule.name!r} already; give it another "
                    "name"
                )
        rules.append(rule)
    return rules


def _read(table: Mapping[str, Any], what: str) -> Rule:
    unknown = sorted(table.keys() - _READERS.keys() - {"match"})
    if unknown:
        known = ", ".join(sorted((*_READERS, "match")))
        raise ConfigurationError(f"{what}: unknown key {unknown[0]!r}; there are: {known}")
    for needed in ("match", "target"):
        if needed not in table:
            raise ConfigurationError(f"{what}: {needed} is missing")
    match = RoutePattern.read(_text(table["match"], f"{what}: match"), f"{what}: match")
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
            f"{what}: match: /{first} belongs to Coatcheck's own API; no rule can be for it"
        )


def _slug(match: RoutePattern) -> str:
    words = [match.method.lower(), *(each for each in match.segments if each != ANY)]
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", "-".join(words))[:80]


# --- how each key is read

Reader = Callable[[Any, str], Any]


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{what} is a text, not {value!r}")
    return value


def _name(value: Any, what: str) -> str:
    if not is_name(_text(value, what)) or len(value) > 80 or ":" in value:
        raise ConfigurationError(f"{what}: {value!r} cannot name a rule: {NAME_RULE}, no colon")
    return str(value)


def _target(value: Any, what: str) -> str:
    wrong = f"{what}: {value!r} is not the address of a service, such as http://127.0.0.1:9000"
    try:
        parts = urlsplit(_text(value, what))
        fits = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        raise ConfigurationError(wrong) from None
    if parts.username is not None or parts.password is not None:
        raise ConfigurationError(f"{what}: an address holds no name and no password")
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
        raise ConfigurationError(f"{what} is a list of headers' names, not {value!r}")
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
