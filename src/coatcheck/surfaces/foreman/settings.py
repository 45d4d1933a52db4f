"""Settings of the queue in front of Ollama, with the names its document gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from coatcheck.errors import ConfigurationError
from coatcheck.model.duration import milliseconds
from coatcheck.model.size import size_in_bytes
from coatcheck.surfaces.environment import whole_number

URL = "FOREMAN_OLLAMA_URL"
ON_HANGUP = ("continue", "cancel")
# The keys of the `[foreman]` table, and their environment variables.
KEYS = {
    name: f"FOREMAN_{name.upper()}"
    for name in (
        *("ollama_url", "ollama_token", "job_ttl", "max_attempts", "poll_interval", "keep_alive"),
        *("webhook_secret", "on_hangup", "per_target", "head_start", "job_timeout", "max_body"),
    )
}


@dataclass(frozen=True)
class ForemanSettings:
    """The settings. The comments are the reference and name each environment variable."""

    # FOREMAN_OLLAMA_URL: the addresses of Ollama servers, separated by commas.
    targets: tuple[str, ...]
    # FOREMAN_OLLAMA_TOKEN: sent to the targets as `Authorization: Bearer ...`.
    token: str = field(default="", repr=False)
    # FOREMAN_JOB_TTL: how long a finished job is kept.
    job_ttl_s: float = 86_400.0
    # FOREMAN_MAX_ATTEMPTS: attempts per job; an unreachable target does not count.
    max_attempts: int = 3
    # FOREMAN_POLL_INTERVAL: the longest pause between probes of an unreachable target.
    poll_s: float = 30.0
    # FOREMAN_KEEP_ALIVE: how long a model stays loaded if the caller does not say; -1: forever.
    keep_alive: int | str = -1
    # FOREMAN_WEBHOOK_SECRET: the key that signs state webhooks; empty: unsigned.
    webhook_secret: str = field(default="", repr=False)
    # FOREMAN_ON_HANGUP: whether a job is continued or cancelled if its caller disconnects.
    cancels_on_hangup: bool = False
    # FOREMAN_PER_TARGET: how many jobs run at once on a target.
    per_target: int = 1
    # FOREMAN_HEAD_START: how much older a job counts if its model is loaded.
    head_start_s: float = 300.0
    # FOREMAN_JOB_TIMEOUT: the timeout of one attempt.
    timeout_s: float = 3_600.0
    # FOREMAN_MAX_BODY: the largest request body, images included.
    max_body: int = 64 * 1024 * 1024

    @property
    def slots(self) -> int:
        """How many jobs run at once on all targets."""
        return len(self.targets) * self.per_target

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> ForemanSettings:
        """Read the settings; raises a ConfigurationError that names the wrong variable."""
        hangup = environment.get("FOREMAN_ON_HANGUP", "").strip() or ON_HANGUP[0]
        if hangup not in ON_HANGUP:
            raise ConfigurationError(
                f"FOREMAN_ON_HANGUP is one of {', '.join(ON_HANGUP)}, not {hangup!r}"
            )
        size = environment.get("FOREMAN_MAX_BODY", "").strip()
        return cls(
            targets=_targets(environment.get(URL, "")),
            token=_token(environment.get("FOREMAN_OLLAMA_TOKEN", "")),
            job_ttl_s=_seconds(environment, "FOREMAN_JOB_TTL", cls.job_ttl_s),
            max_attempts=whole_number(environment, "FOREMAN_MAX_ATTEMPTS", cls.max_attempts, 1),
            poll_s=_seconds(environment, "FOREMAN_POLL_INTERVAL", cls.poll_s),
            keep_alive=_keep_alive(environment.get("FOREMAN_KEEP_ALIVE", "")),
            webhook_secret=environment.get("FOREMAN_WEBHOOK_SECRET", "").strip(),
            cancels_on_hangup=hangup == "cancel",
            per_target=whole_number(environment, "FOREMAN_PER_TARGET", cls.per_target, 1),
            head_start_s=_seconds(environment, "FOREMAN_HEAD_START", cls.head_start_s),
            timeout_s=_seconds(environment, "FOREMAN_JOB_TIMEOUT", cls.timeout_s),
            max_body=size_in_bytes(size, "FOREMAN_MAX_BODY") if size else cls.max_body,
        )


def from_table(table: Mapping[str, Any]) -> dict[str, str]:
    """Convert the `[foreman]` table of a config file to environment variables; raises
    ConfigurationError.
    """
    unknown = sorted(table.keys() - KEYS.keys())
    if unknown:
        raise ConfigurationError(f"unknown key {unknown[0]!r}; the keys are: {', '.join(KEYS)}")
    found = {}
    for key, value in table.items():
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            value = ",".join(value)  # noqa: PLW2901 - as in the environment
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise ConfigurationError(f"{key} is a string or a number, not {value!r}")
        found[KEYS[key]] = str(value)
    return found


def _targets(given: str) -> tuple[str, ...]:
    found = tuple(text.strip().rstrip("/") for text in given.split(",") if text.strip())
    if not found:
        raise ConfigurationError(
            f"set {URL} to the address of Ollama, such as http://127.0.0.1:11434"
        )
    for url in found:
        if not _is_address(url):
            # The value may hold a password: do not repeat it.
            raise ConfigurationError(
                f"{URL} is a list of addresses such as http://laptop:11434, separated by commas, "
                "without user names or passwords (use FOREMAN_OLLAMA_TOKEN)"
            )
    if len(set(found)) != len(found):
        raise ConfigurationError(f"{URL} contains an address twice")
    return found


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0  # raises if it is not a number
    except ValueError:
        return False
    extra = not has_port or parts.query or parts.fragment or parts.username is not None
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not extra


def _token(given: str) -> str:
    token = given.strip()
    if token and not (token.isascii() and token.isprintable()):
        raise ConfigurationError(
            "FOREMAN_OLLAMA_TOKEN contains characters that a header cannot have"
        )
    return token


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "").strip()
    if not text:
        return default
    try:
        return milliseconds(float(text), name) / 1000
    except ValueError:
        return milliseconds(text, name) / 1000


def _keep_alive(given: str) -> int | str:
    """Read it as Ollama does: seconds or a duration; a negative value means forever."""
    text = given.strip()
    if not text:
        return ForemanSettings.keep_alive
    try:
        return int(text)
    except ValueError:
        pass
    milliseconds(text.removeprefix("-"), "FOREMAN_KEEP_ALIVE")
    return text
