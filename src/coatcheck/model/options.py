"""The options of `@app.job`, and the kind that they describe.

Options that belong together have a value of their own: `RetryPolicy`, `Limits` and `Retention`.
Each of their fields is an option of `@app.job` too: `retries=5` is `retry=RetryPolicy(retries=5)`.
A call gives a field in one form or the other. `SurfaceOptions` is for the authors of surfaces.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict, TypeVar, get_args

from coatcheck.errors import ConfigurationError
from coatcheck.model.confinement import Confinement
from coatcheck.model.duration import Duration, milliseconds
from coatcheck.model.handler import isolation_of, signature_of
from coatcheck.model.job import DEFAULT_QUEUE, Terms
from coatcheck.model.kind import ForkInput, Isolation, Kind, OnDrain, OnLost, OnOverrun
from coatcheck.model.limit import Limit, read_rate
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.size import Size, size_in_bytes
from coatcheck.model.webhook_format import WebhookFormat

Group = TypeVar("Group")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a job gets a further attempt.

    `retries` is the number of attempts after the first. `on_lost` decides about a job whose worker
    is lost. `on_drain` decides about a job that does not finish before its worker stops: "release"
    gives it back, "fail" fails it; by default it follows `on_lost`. `on_overrun="fail"` fails a job
    whose attempt exceeded its timeout or memory or killed its process.
    """

    retries: int = 2
    on_lost: OnLost = "requeue"
    on_drain: OnDrain | None = None
    on_overrun: OnOverrun = "retry"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many jobs of a kind run at once, and how often one starts, over all workers.

    `concurrency_key` is a function of the input: then `concurrency` (by default 1) counts the jobs
    of each key. `rate` limits starts, such as "10/m". `age_boosts` returns, at every claim, by how
    many milliseconds the jobs of a queue count as older than they are; it must be fast.
    """

    concurrency: int | None = None
    concurrency_key: Callable[[Any], Any] | None = None
    rate: str | None = None
    age_boosts: Callable[[], Mapping[str, int]] | None = None


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a finished job and its input are kept.

    An input lives as long as its job, by default. `drop_input_on_end` deletes it when the job
    finishes. `payload_ttl` deletes it after that time in any case; an unfinished job fails then.
    """

    keep_succeeded: Duration = "24h"
    keep_failed: Duration = "7d"
    payload_ttl: Duration | None = None
    drop_input_on_end: bool = False


@dataclass(frozen=True, slots=True)
class SurfaceOptions:
    """Options for the kinds behind a surface.

    `internal` hides a kind that only its surface submits from the cockpit and from MCP clients.
    `webhook_format` replaces Standard Webhooks for the jobs' own webhooks. `confinement` runs the
    handler's process without network, credentials or files but temporary ones, for one tenant.
    `fork_input` returns the input of a fork, for inputs with content that belongs to one job.
    """

    internal: bool = False
    webhook_format: WebhookFormat | None = None
    confinement: Confinement | None = None
    fork_input: ForkInput | None = None


class KindOptions(TypedDict, total=False):
    """The keyword arguments of `@app.job`."""

    timeout: Duration  # of one attempt; "1h"
    isolation: Isolation | None  # None: "async" for `async def`, else "thread"
    memory: Size | None  # that a job may add to its process
    slots: int  # processes per worker; 0: one per core
    queue: str
    version: str | None  # a job that has started continues only under its version

    retry: RetryPolicy
    limits: Limits
    retention: Retention
    surface: SurfaceOptions

    # RetryPolicy
    retries: int
    on_lost: OnLost
    on_drain: OnDrain | None
    on_overrun: OnOverrun
    # Limits
    concurrency: int | None
    concurrency_key: Callable[[Any], Any] | None
    rate: str | None
    # Retention
    keep_succeeded: Duration
    keep_failed: Duration
    payload_ttl: Duration | None
    drop_input_on_end: bool

    # Deprecated; use `limits` or `surface`.
    head_starts: Callable[[], Mapping[str, int]] | None
    wording: WebhookFormat | None
    internal: bool
    confinement: Confinement | None
    fork_input: ForkInput | None


# Deprecated options: the group and the field that replace each.
_DEPRECATED = {
    "head_starts": ("limits=Limits", "age_boosts"),
    "wording": ("surface=SurfaceOptions", "webhook_format"),
    "internal": ("surface=SurfaceOptions", "internal"),
    "confinement": ("surface=SurfaceOptions", "confinement"),
    "fork_input": ("surface=SurfaceOptions", "fork_input"),
}


def check_names(options: Mapping[str, Any], stacklevel: int) -> None:
    """Raise TypeError for an unknown option; warn about a deprecated one."""
    for name in options:
        if name not in KindOptions.__annotations__:
            raise TypeError(f"App.job() got an unexpected keyword argument {name!r}")
        if name in _DEPRECATED:
            group, field = _DEPRECATED[name]
            words = f"App.job({name}=...) is deprecated; use {group}({field}=...)"
            warnings.warn(words, DeprecationWarning, stacklevel=stacklevel + 1)


def build_kind(name: str, handler: Callable[..., Any], options: KindOptions) -> Kind:
    """Check the options of a kind and return it; raises ConfigurationError."""
    what = f"kind {name!r}"
    queue, version = options.get("queue", DEFAULT_QUEUE), options.get("version")
    for noun, text in (("kind", name), ("queue", queue)):
        if not is_name(text):
            raise ConfigurationError(f"{text!r} cannot name a {noun}: {NAME_RULE}")
    if version is not None and not is_name(version):
        raise ConfigurationError(f"{what}: version {version!r}: {NAME_RULE}")
    retry = _group(what, "retry", RetryPolicy, options)
    limits = _group(what, "limits", Limits, options)
    retention = _group(what, "retention", Retention, options)
    surface = _group(what, "surface", SurfaceOptions, options)
    on_drain = _check_retry(what, retry)
    isolation = isolation_of(name, handler, options.get("isolation"))
    memory, slots = options.get("memory"), options.get("slots", 0)
    if isolation != "process":
        _check_no_process_options(what, memory, slots, surface.confinement)
    takes_input, input_type, result_type = signature_of(name, handler)
    ttl = retention.payload_ttl
    return Kind(
        name=name,
        handler=handler,
        takes_input=takes_input,
        isolation=isolation,
        input_type=input_type,
        result_type=result_type,
        queue=queue,
        limit=_limit_of(what, limits),
        concurrency_key=limits.concurrency_key,
        age_boosts=limits.age_boosts,
        version=version,
        slots=slots,
        confinement=surface.confinement,
        memory=None if memory is None else size_in_bytes(memory, f"{what}: memory"),
        payload_ttl_ms=None if ttl is None else milliseconds(ttl, f"{what}: payload_ttl"),
        drop_input_on_end=retention.drop_input_on_end,
        internal=surface.internal,
        webhook_format=surface.webhook_format,
        fork_input=surface.fork_input,
        on_drain=on_drain,
        on_overrun=retry.on_overrun,
        terms=Terms(
            max_attempts=retry.retries + 1,
            on_lost=retry.on_lost,
            timeout_ms=milliseconds(options.get("timeout", "1h"), f"{what}: timeout"),
            keep_succeeded_ms=milliseconds(retention.keep_succeeded, f"{what}: keep_succeeded"),
            keep_failed_ms=milliseconds(retention.keep_failed, f"{what}: keep_failed"),
        ),
    )


def _group(what: str, name: str, type_: type[Group], options: Mapping[str, Any]) -> Group:
    """Return a group of options, given as a value or field by field."""
    named = {field.name: field.name for field in fields(type_)}  # type: ignore[arg-type]
    for old, (group, field) in _DEPRECATED.items():
        if group.startswith(f"{name}="):
            named[old] = field
    flat = {named[option]: value for option, value in options.items() if option in named}
    if name not in options:
        return type_(**flat)
    given = options[name]
    if not isinstance(given, type_):
        raise ConfigurationError(f"{what}: {name} is a {type_.__name__}, not {given!r}")
    twice = ", ".join(option for option in options if option in named)
    if twice:
        value = f"{name}={type_.__name__}(...)"
        raise ConfigurationError(f"{what}: give {twice} in {value} or directly, not both")
    return given


def _check_retry(what: str, retry: RetryPolicy) -> OnDrain:
    if retry.retries < 0:
        raise ConfigurationError(f"{what}: retries must not be negative")
    on_drain: OnDrain = retry.on_drain or ("fail" if retry.on_lost == "fail" else "release")
    for option, given, choices in (
        ("on_lost", retry.on_lost, get_args(OnLost)),
        ("on_drain", on_drain, get_args(OnDrain)),
        ("on_overrun", retry.on_overrun, get_args(OnOverrun)),
    ):
        if given not in choices:
            choice = " or ".join(", ".join(choices).rsplit(", ", 1))
            raise ConfigurationError(f"{what}: {option} is {choice}, not {given!r}")
    return on_drain


def _check_no_process_options(
    what: str, memory: Size | None, slots: int, confinement: Confinement | None
) -> None:
    given = {"confinement": confinement, "memory": memory is not None, "slots": slots}
    for option, is_given in given.items():
        if is_given:
            raise ConfigurationError(f"{what}: {option} needs isolation='process'")


def _limit_of(what: str, limits: Limits) -> Limit | None:
    """Check the limits of a kind; return None if there are none."""
    concurrency, key, rate = limits.concurrency, limits.concurrency_key, limits.rate
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise ConfigurationError(
            f"{what}: concurrency is a whole number from 1 on, not {concurrency!r}"
        )
    if key is not None and not callable(key):
        raise ConfigurationError(f"{what}: concurrency_key is a function of the input")
    if concurrency is None and key is None and rate is None:
        if limits.age_boosts is not None:
            raise ConfigurationError(f"{what}: age_boosts need concurrency, a key or a rate")
        return None
    return Limit(
        concurrency=1 if concurrency is None and key is not None else concurrency,
        by_key=key is not None,
        rate=None if rate is None else read_rate(rate, f"{what}: rate"),
    )
