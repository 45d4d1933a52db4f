"""App: a value that declares kinds of jobs, schedules and surfaces."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from inspect import isawaitable
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol, TypeVar, Unpack, cast, overload

from pydantic_core import to_json

from coatcheck.clock import SystemClock, from_rfc3339
from coatcheck.crypto.encryption import Keyring
from coatcheck.crypto.secret_refs import resolve
from coatcheck.engine.schedules.schedules import check_definition
from coatcheck.engine.submit.submission import Submission, prepare
from coatcheck.errors import ConfigurationError, InvalidInput
from coatcheck.ids import UlidGenerator
from coatcheck.model.duration import Duration, milliseconds
from coatcheck.model.job import API_SURFACE
from coatcheck.model.kind import Kind
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.options import KindOptions, build_kind, check_names
from coatcheck.model.schedule import DEFAULT_ZONE, CatchUp, Overlap, ScheduleDefinition, Timing

Handler = TypeVar("Handler", bound=Callable[..., Any])


class Declares(Protocol):
    """The part of a surface that an app uses; see coatcheck.http.surfaces.base."""

    @property
    def name(self) -> str:
        """The name that its jobs carry."""
        ...

    def declare(self, app: App) -> None:
        """Declare the kinds behind the surface."""
        ...


class App:
    """A set of kinds, schedules and surfaces.

    `@app.job`, `app.schedule` and `app.use` add one. Only `enqueue` does I/O, on your connection.
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
        """Add a surface, with the kinds behind it."""
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
        self, name: str | None = None, **options: Unpack[KindOptions]
    ) -> Callable[[Handler], Handler]: ...

    def job(self, name: Any = None, **options: Any) -> Any:
        """Declare the decorated function as the handler of a kind, with the function's name.

        The handler takes `(ctx, input)` or only `(ctx)`. Coatcheck validates the input against the
        function's type annotations before it accepts a job. An `async def` runs on the worker's
        handler loop, a `def` in a thread. With `isolation="process"` either runs in a process of
        its own; `memory` limits how much a job may add to it, and `slots` sets how many of them a
        worker runs, by default one per core.

        `timeout` limits one attempt. A job that has started under a `version` continues only on
        workers that have the kind in that version. `retry`, `limits` and `retention` are values
        (`RetryPolicy`, `Limits`, `Retention`), and each of their fields is an option too: give
        `retries=5` or `retry=RetryPolicy(retries=5)`. `surface` is for the authors of surfaces.
        """
        check_names(options, stacklevel=2)

        def declare(handler: Handler) -> Handler:
            kind_name = handler.__name__ if name is None or callable(name) else name
            kind = build_kind(kind_name, handler, cast("KindOptions", options))
            if kind.name in self._kinds:
                raise ConfigurationError(f"kind {kind.name!r} is declared twice in this app")
            self._kinds[kind.name] = kind
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
        """Declare a schedule that submits a job of a kind, given by its name or its handler.

        Ticks follow a `cron` expression in a `timezone`, or come `every` so often from `start_at`,
        by default from when the schedule is first registered. Each process that serves the app
        registers it at startup; each tick becomes one job, however many processes there are.
        `catch_up` decides about ticks that fell due while no process was running. With
        `overlap="skip"` a tick is skipped while the previous job has not finished.
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
        raise ConfigurationError(f"{what}: its handler is not declared here; add @app.job to it")

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
        """Submit a job inside your own PostgreSQL transaction.

        The job exists if and only if that transaction commits. The connection is one of asyncpg,
        psycopg 3 or SQLAlchemy (a session works too), to the database with Coatcheck's schema.
        Return the job's id; with an asynchronous connection, await it. If the servers have
        encryption keys, give the same keys here to encrypt the input.
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
            job = job._replace(input=keys.encrypt(job.input, job.tenant))
        pending = enqueue(connection, job, now, schema)
        return when_done(pending, job.id) if isawaitable(pending) else job.id


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
            raise  # a module that the app itself imports
        raise ConfigurationError(
            f"there is no module {module_name!r} here; run the command where it can be imported"
        ) from error
    app = getattr(module, attribute, None)
    if not isinstance(app, App):
        found = "nothing" if app is None else f"a {type(app).__name__}"
        raise ConfigurationError(f"{reference!r} should be a coatcheck.App, but is {found}")
    return app
