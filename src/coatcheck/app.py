"""App: what a user writes. It declares kinds of jobs and is then passed around as a value."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, get_args, overload

from pydantic_core import to_json

from coatcheck.clock import SystemClock, from_rfc3339
from coatcheck.crypto.encryption import Keyring
from coatcheck.crypto.secret_refs import resolve
from coatcheck.engine.schedules.schedules import check_definition
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import ConfigurationError, InvalidInput
from coatcheck.ids import UlidGenerator
from coatcheck.model.confinement import Confinement
from coatcheck.model.duration import Duration, milliseconds
from coatcheck.model.handler import isolation_of, signature_of
from coatcheck.model.job import API_SURFACE, DEFAULT_QUEUE, Terms
from coatcheck.model.kind import ForkInput, Isolation, Kind, OnDrain, OnLost, OnOverrun
from coatcheck.model.limit import Limit, read_rate
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.schedule import DEFAULT_ZONE, CatchUp, Overlap, ScheduleDefinition, Timing
from coatcheck.model.size import Size, size_in_bytes
from coatcheck.model.webhook_format import WebhookFormat

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Declares(Protocol):
    """A surface, as far as an app knows one: see coatcheck.http.surfaces.base."""

    @property
    def name(self) -> str:
        """What its jobs carry."""
        ...

    def declare(self, app: App) -> None:
        """Declare the kinds of jobs behind it."""
        ...


class App:
    """A set of kinds, schedules and surfaces: `@app.job`, `app.schedule` and `app.use` add one.
    Only `enqueue` does any I/O, on your connection.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, Kind] = {}
        self._schedules: dict[str, ScheduleDefinition] = {}
        self._surfaces: dict[str, Declares] = {}
        self._new_id = UlidGenerator()

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """The declared kinds by name."""
        return MappingProxyType(self._kinds)

    @property
    def schedules(self) -> Mapping[str, ScheduleDefinition]:
        """The declared schedules by name."""
        return MappingProxyType(self._schedules)

    @property
    def surfaces(self) -> Mapping[str, Declares]:
        """The surfaces in use by name."""
        return MappingProxyType(self._surfaces)

    def use(self, surface: Declares) -> None:
        """Open another door onto this app: a surface, with the kinds behind it."""
        if not is_name(surface.name):
            raise ConfigurationError(f"{surface.name!r} cannot name a surface: {NAME_RULE}")
        if surface.name in (*self._surfaces, API_SURFACE):
            raise ConfigurationError(f"there is a surface {surface.name!r} in this app already")
        surface.declare(self)
        self._surfaces[surface.name] = surface

    @overload
    def job(self, name: Handler, /) -> Handler: ...

    @overload
    def job(
        self,
        name: str | None = None,
        *,
        retries: int = 2,
        timeout: Duration = "1h",
        on_lost: OnLost = "requeue",
        on_drain: OnDrain | None = None,
        on_overrun: OnOverrun = "retry",
        isolation: Isolation | None = None,
        memory: Size | None = None,
        confinement: Confinement | None = None,
        slots: int = 0,
        queue: str = DEFAULT_QUEUE,
        keep_succeeded: Duration = "24h",
        keep_failed: Duration = "7d",
        concurrency: int | None = None,
        concurrency_key: Callable[[Any], Any] | None = None,
        rate: str | None = None,
        head_starts: Callable[[], Mapping[str, int]] | None = None,
        version: str | None = None,
        payload_ttl: Duration | None = None,
        drop_input_on_end: bool = False,
        internal: bool = False,
        wording: WebhookFormat | None = None,
        fork_input: ForkInput | None = None,
    ) -> Callable[[Handler], Handler]: ...

    def job(
        self,
        name: Any = None,
        *,
        retries: int = 2,
        timeout: Duration = "1h",
        on_lost: OnLost = "requeue",
        on_drain: OnDrain | None = None,
        on_overrun: OnOverrun = "retry",
        isolation: Isolation | None = None,
        memory: Size | None = None,
        confinement: Confinement | None = None,
        slots: int = 0,
        queue: str = DEFAULT_QUEUE,
        keep_succeeded: Duration = "24h",
        keep_failed: Duration = "7d",
        concurrency: int | None = None,
        concurrency_key: Callable[[Any], Any] | None = None,
        rate: str | None = None,
        head_starts: Callable[[], Mapping[str, int]] | None = None,
        version: str | None = None,
        payload_ttl: Duration | None = None,
        drop_input_on_end: bool = False,
        internal: bool = False,
        wording: WebhookFormat | None = None,
        fork_input: ForkInput | None = None,
    ) -> Any:
        """Declare the decorated function as the handler of a kind, named like it unless told.

        The handler takes `(ctx, input)` or only `(ctx)`. An `async def` runs on the worker's
        handler loop, a `def` in a thread; with `isolation="process"` both run in a process of
        their own, where `memory` limits what a job may add to it, and a worker has room for as many
        as it has cores, or as `slots` asks for. With a `confinement` that process has no network, a
        clean environment, no files but temporary ones, and never serves two tenants. What its
        annotations say is what the input is checked against before a job is accepted.

        `on_lost` says what becomes of a job whose worker disappears, `on_drain` of one that does
        not finish in time where its worker was told to stop: it is given back ("release") or fails
        ("fail"). Unless told, it fails where it would if its worker disappeared. With
        `on_overrun="fail"` an attempt that took more time or memory than it may, or its process
        along, is the last: it is the input that does so.

        `concurrency` is how many of its jobs run at once, on all workers together; with
        `concurrency_key`, a function of the input, how many of each key (one, unless told). `rate`
        ("10/m") is how many start. Of a kind with a limit, `head_starts` is asked at every claim by
        how many milliseconds the jobs of which queues count as older than they are: it has to be
        quick. A job that has begun under a `version` goes on only on workers
        that have the kind in that version.
        An input, with the files uploaded for it, lives as long as its job. With
        `drop_input_on_end` it is removed when the job ends; after `payload_ttl` in any case, by
        when the job has ended or fails. `wording` is for surfaces whose document says what the
        webhooks of their jobs look like, `internal` for kinds whose jobs a surface makes and nobody
        else can use: they are offered neither in the cockpit nor to assistants. `fork_input` is for
        surfaces whose inputs hold what belongs to one job: it returns the input of a fork.
        """

        def declare(handler: Handler) -> Handler:
            kind_name = handler.__name__ if name is None or callable(name) else name
            for what, text in (("kind", kind_name), ("queue", queue)):
                if not is_name(text):
                    raise ConfigurationError(f"{text!r} cannot name a {what}: {NAME_RULE}")
            if kind_name in self._kinds:
                raise ConfigurationError(f"kind {kind_name!r} is declared twice in this app")
            if retries < 0:
                raise ConfigurationError(f"kind {kind_name!r}: retries must not be negative")
            drained = on_drain or ("fail" if on_lost == "fail" else "release")
            _check_choice(kind_name, "on_lost", on_lost, get_args(OnLost))
            _check_choice(kind_name, "on_drain", drained, get_args(OnDrain))
            _check_choice(kind_name, "on_overrun", on_overrun, get_args(OnOverrun))
            where = isolation_of(kind_name, handler, isolation)
            if (memory is not None or slots or confinement) and where != "process":
                what = "memory can only be limited" if memory is not None else "slots are"
                what = "a handler can only be confined" if confinement else what
                raise ConfigurationError(f"kind {kind_name!r}: {what} with isolation='process'")
            limit = limit_of(kind_name, concurrency, concurrency_key, rate)
            if head_starts is not None and limit is None:
                raise ConfigurationError(
                    f"kind {kind_name!r}: head_starts are for a kind with a limit"
                )
            if version is not None and not is_name(version):
                raise ConfigurationError(f"kind {kind_name!r}: version {version!r}: {NAME_RULE}")
            takes_input, input_type, result_type = signature_of(kind_name, handler)
            self._kinds[kind_name] = Kind(
                name=kind_name,
                handler=handler,
                takes_input=takes_input,
                isolation=where,
                input_type=input_type,
                result_type=result_type,
                queue=queue,
                limit=limit,
                concurrency_key=concurrency_key,
                age_boosts=head_starts,
                version=version,
                slots=slots,
                confinement=confinement,
                memory=None
                if memory is None
                else size_in_bytes(memory, f"kind {kind_name!r}: memory"),
                payload_ttl_ms=None
                if payload_ttl is None
                else milliseconds(payload_ttl, f"kind {kind_name!r}: payload_ttl"),
                drop_input_on_end=drop_input_on_end,
                internal=internal,
                webhook_format=wording,
                fork_input=fork_input,
                on_drain=drained,
                on_overrun=on_overrun,
                terms=Terms(
                    max_attempts=retries + 1,
                    on_lost=on_lost,
                    timeout_ms=milliseconds(timeout, f"kind {kind_name!r}: timeout"),
                    keep_succeeded_ms=milliseconds(
                        keep_succeeded, f"kind {kind_name!r}: keep_succeeded"
                    ),
                    keep_failed_ms=milliseconds(keep_failed, f"kind {kind_name!r}: keep_failed"),
                ),
            )
            return handler

        return declare(name) if callable(name) else declare

    def schedule(
        self,
        name: str,
        kind: str | Callable[..., Any],
        input: Any = None,  # noqa: A002 - as in enqueue
        *,
        cron: str | None = None,
        every: Duration | None = None,
        start_at: datetime | None = None,
        timezone: str = DEFAULT_ZONE,
        queue: str | None = None,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        deadline_s: float | None = None,
        max_attempts: int | None = None,
        catch_up: Literal["latest", "skip", "all"] = "latest",
        overlap: Literal["allow", "skip"] = "allow",
    ) -> None:
        """Declare that a job of a kind (its name, or its handler) comes back by the clock.

        Either by a `cron` expression in a `timezone`, or `every` so often, counted from `start_at`
        (else from when it is first registered). Each process that serves the app registers it when
        it starts; each tick becomes one job, however many there are. `catch_up` says what becomes
        of ticks while no process was there, `overlap` whether a tick becomes a job while the one
        before has not ended.
        """
        what = f"schedule {name!r}"
        if name in self._schedules:
            raise ConfigurationError(f"{what} is declared twice in this app")
        try:
            definition = ScheduleDefinition(
                name=name,
                kind=kind if isinstance(kind, str) else self._kind_of(what, kind),
                timing=Timing(
                    cron=cron,
                    every_ms=None if every is None else milliseconds(every, f"{what}: every"),
                    start_at=None if start_at is None else from_rfc3339(start_at.isoformat()),
                    timezone=timezone,
                ),
                input=to_json(input).decode(),
                queue=queue,
                priority=priority,
                labels=json.dumps(dict(labels or {}), sort_keys=True),
                deadline_s=deadline_s,
                max_attempts=max_attempts,
                catch_up=CatchUp(catch_up),
                overlap=Overlap(overlap),
            )
            check_definition(definition, self._kinds)
        except ConfigurationError:
            raise
        except (InvalidInput, ValueError) as error:
            raise ConfigurationError(f"{what}: {error}") from error
        self._schedules[name] = definition

    def _kind_of(self, what: str, handler: Callable[..., Any]) -> str:
        for kind in self._kinds.values():
            if kind.handler is handler:
                return kind.name
        raise ConfigurationError(f"{what}: its handler is not declared here; put @app.job before")

    def enqueue(
        self,
        connection: Any,
        kind: str,
        input: Any = None,  # noqa: A002 - the name the contract gives it
        *,
        queue: str | None = None,
        priority: int = 0,
        labels: Mapping[str, str] | None = None,
        run_at: datetime | None = None,
        deadline_s: float | None = None,
        max_attempts: int | None = None,
        schema: str = "coatcheck",
        encryption_keys: str = "",
    ) -> Any:
        """Submit a job inside the transaction a PostgreSQL connection of yours is in.

        The job exists if and only if that transaction commits. The connection is one of asyncpg,
        psycopg 3 or SQLAlchemy (also a session), to the database that holds Coatcheck's schema.
        Returns the job's id; with an asynchronous connection, await it. Where the servers have
        encryption keys, give the same here: the input is sealed with them.
        """
        from coatcheck.store.postgres.enqueue import enqueue, when_done  # noqa: PLC0415 - optional

        clock = SystemClock()
        now = clock.now()
        submission = Submission(
            kind=kind,
            input=to_json(input).decode(),
            queue=queue,
            priority=priority,
            labels=labels or {},
            run_at=None if run_at is None else from_rfc3339(run_at.isoformat()),
            deadline_s=deadline_s,
            max_attempts=max_attempts,
        )
        job = prepare(submission, self._kinds, self._new_id(), now)
        if encryption_keys:
            keys = Keyring.read(resolve(encryption_keys))
            job = job._replace(input=keys.seal(job.input, job.tenant))
        pending = enqueue(connection, job, now, schema)
        return when_done(pending, job.id) if isawaitable(pending) else job.id


def limit_of(
    kind: str, concurrency: int | None, key: Callable[[Any], Any] | None, rate: str | None
) -> Limit | None:
    """Check the limits a kind declares and return them; None where there are none."""
    if concurrency is not None and (type(concurrency) is not int or concurrency < 1):
        raise ConfigurationError(
            f"kind {kind!r}: concurrency is a whole number from 1 on, not {concurrency!r}"
        )
    if key is not None and not callable(key):
        raise ConfigurationError(f"kind {kind!r}: concurrency_key is a function of the input")
    if concurrency is None and key is None and rate is None:
        return None
    return Limit(
        concurrency=1 if concurrency is None and key is not None else concurrency,
        by_key=key is not None,
        rate=None if rate is None else read_rate(rate, f"kind {kind!r}: rate"),
    )


def load_app(reference: str) -> App:
    """Import `module:attribute` (or `path/to/file.py:attribute`) and return the App it names."""
    module_name, colon, attribute = reference.partition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(
            f"{reference!r} does not name an app; write module:app, such as mymodule:app"
        )
    if module_name.endswith(".py"):
        path = Path(module_name).resolve()
        sys.path.insert(0, str(path.parent))
        module_name = path.stem
    elif "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise  # something the module itself needs
        raise ConfigurationError(
            f"there is no module {module_name!r} here; run the command where it can be imported"
        ) from error
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        found = "nothing" if app is None else f"a {type(app).__name__}"
        raise ConfigurationError(f"{reference!r} should be a coatcheck.App, but is {found}")
    return app


def _check_choice(kind_name: str, what: str, said: str, known: tuple[str, ...]) -> None:
    if said not in known:
        choice = " or ".join(", ".join(known).rsplit(", ", 1))
        raise ConfigurationError(f"kind {kind_name!r}: {what} is {choice}, not {said!r}")
