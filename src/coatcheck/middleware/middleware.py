"""`Coatcheck(app, routes=[...])`: slow endpoints of an ASGI app become jobs, without changing it.

A call of one of the routes is authorized (authorize.py), stored and submitted as a job (intake.py).
The caller gets the endpoint's response if that is quick, otherwise a 202 with the job's address. A
worker in the same process runs the job (runtime.py) by calling the app with the stored request
(upstream.py). All other requests go to the app unchanged, except those about jobs (job_routes.py).

Everything starts with the app's lifespan. With a server that does not support lifespans, it starts
with the first request and ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from starlette.types import ASGIApp as StarletteApp

from coatcheck.app import App
from coatcheck.engine.confirmation import current as confirmations
from coatcheck.errors import CoatcheckError, ConfigurationError
from coatcheck.http.errors import error_response, format_problem
from coatcheck.middleware.app_call import ASGIApp, Receive, Scope, Send, is_own_call, target_app
from coatcheck.middleware.authorize import AllowEveryone, Authorizer, Hook, HookAuthorizer
from coatcheck.middleware.context import EndpointContext
from coatcheck.middleware.fastapi_probe import FastApiAuthorizer
from coatcheck.middleware.intake import RequestIntake, RouteOptions
from coatcheck.middleware.job_routes import AppAuthenticator, JobRoutes, is_job_path
from coatcheck.middleware.lifespan import Lifespan
from coatcheck.middleware.routes import Routes
from coatcheck.middleware.runtime import ServerRuntime
from coatcheck.middleware.upstream import (
    AppServer,
    AppUpstream,
    CallJob,
    WrappedCall,
    current_job,
)
from coatcheck.model.duration import Duration, milliseconds
from coatcheck.model.job import API_SURFACE
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.options import SurfaceOptions
from coatcheck.relay.call import StoredResponse
from coatcheck.relay.credentials import CallEncryption, fork_input_for
from coatcheck.relay.handler import CallTerms, OnHangup, relay_call
from coatcheck.relay.intake import IntakeOptions
from coatcheck.relay.responder import Responder
from coatcheck.settings import load_settings
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

Authorize = Hook | Literal["fastapi-dependencies", "none"]

# The worker's own timeout comes this much after the timeout of a call, which has a better message.
_EXTRA_S = 60.0


class Coatcheck:
    """An ASGI app around another, with jobs behind some of its routes.

    `routes` lists the routes that become jobs ("POST /render", "POST /reports/{id}", "GET
    /export/*"). `authorize` decides who may call and is required: a hook, "fastapi-dependencies" or
    "none" (see coatcheck.middleware.authorize). A caller waits up to `wait` for the response, then
    gets a 202; None waits without limit. `database` and all other settings are those of a Coatcheck
    server. Apps that share a database need a `name` each.

    A call is repeated if its process was lost or its response broke, up to `retries` times;
    `repeatable=False` prevents that. A response with one of `retry_statuses` is also retried.
    `timeout` limits one attempt.
    """

    def __init__(
        self,
        app: Any,
        routes: Iterable[str],
        *,
        database: str | None = None,
        name: str = "app",
        prefix: str = "",
        wait: Duration | None = "2s",
        authorize: Authorize | None = None,
        timeout: Duration = "1h",
        retries: int = 2,
        retry_statuses: Iterable[int] = (),
        repeatable: bool = True,
        concurrency: int | None = None,
        keep: Duration = "24h",
        credentials: Literal["seal", "drop"] = "seal",
        on_hangup: OnHangup = "continue",
    ) -> None:
        if not is_name(name):
            raise ConfigurationError(f"{name!r} cannot name an app: {NAME_RULE}")
        if prefix and (not prefix.startswith("/") or prefix.endswith("/")):
            raise ConfigurationError(f"prefix is a path such as /background, not {prefix!r}")
        if credentials not in ("seal", "drop"):
            raise ConfigurationError(f"credentials is seal or drop, not {credentials!r}")
        if on_hangup not in ("continue", "cancel"):
            raise ConfigurationError(f"on_hangup is continue or cancel, not {on_hangup!r}")
        self._app: ASGIApp = app
        self._routes = Routes.parse(routes)
        self._prefix = prefix
        self._authorizer = _build_authorizer(app, authorize)
        self._settings = load_settings({"database": database})
        self._encryption = CallEncryption()
        self._upstream = AppUpstream()
        self._options = RouteOptions(
            IntakeOptions(name, credentials=credentials),
            prefix,
            None if wait is None else 0.0 if not wait else milliseconds(wait, "wait") / 1000,
            on_hangup,
        )
        terms = CallTerms(
            name,
            timeout_s=milliseconds(timeout, "timeout") / 1000,
            retries=retries,
            retry_statuses=frozenset(retry_statuses),
            repeatable=repeatable,
            on_hangup=on_hangup,
        )
        self._jobs = App()
        self._jobs.job(
            name,
            retries=retries,
            timeout=terms.timeout_s + _EXTRA_S,
            on_lost="requeue" if repeatable else "fail",
            concurrency=concurrency,
            keep_succeeded=keep,
            surface=SurfaceOptions(
                fork_input=fork_input_for(WrappedCall, lambda: self._encryption, API_SURFACE)
            ),
        )(_build_handler(self._upstream, terms, self._encryption))
        self._started: _StartedServer | None = None
        self._starting: asyncio.Task[_StartedServer] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request, or pass it to the app."""
        if scope["type"] == "lifespan":
            await Lifespan(self._app, partial(self._start, scope), self._stop).run(
                scope, receive, send
            )
        elif scope["type"] != "http" or is_own_call(scope):
            await self._app(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        # Checked first, so that a route such as "GET /*" does not hide the endpoints about jobs.
        is_about_job = is_job_path(scope["path"].removeprefix(root), self._prefix)
        becomes_job = not is_about_job and self._routes.match(scope)
        starting = self._ensure_started(scope)
        if not becomes_job and not is_about_job:
            await self._app(scope, receive, send)
            return
        try:
            started = self._started if starting is None else await asyncio.shield(starting)
        except CoatcheckError as error:
            await format_problem(error_response(error), scope["path"])(scope, receive, send)
            return
        assert started is not None, "startup is complete"
        token = confirmations.set(None)  # both branches set one, for this request alone
        try:
            if becomes_job:
                await started.intake.serve(scope, receive, send)
            else:
                below = {**scope, "root_path": root + self._prefix}
                await started.job_routes(below, receive, send)
        finally:
            confirmations.reset(token)

    # --- starting and stopping

    def _ensure_started(self, scope: Scope) -> asyncio.Task[_StartedServer] | None:
        """Start everything if no lifespan did; None if it runs on this loop already."""
        loop = asyncio.get_running_loop()
        if self._started is not None and self._started.loop is loop:
            return None
        starting = self._starting
        if starting is None or starting.get_loop() is not loop or starting.done():
            self._starting = starting = loop.create_task(self._start_all(scope))
            starting.add_done_callback(_log_failed_start)
        return starting

    async def _start(self, scope: Scope) -> None:
        await self._start_all(scope)

    async def _start_all(self, scope: Scope) -> _StartedServer:
        await self._authorizer.check()
        await asyncio.to_thread(self._encryption.configure, self._settings)
        loop = asyncio.get_running_loop()
        if self._started is not None:  # on an earlier loop
            self._started.runtime.abandon()
        app = target_app(scope, self._app)
        self._upstream.server = AppServer(app, loop, scope.get("state") or {})
        runtime = ServerRuntime(self._jobs, self._settings)
        await runtime.start()
        engine = runtime.engine
        engine.authenticator = AppAuthenticator(engine.store, engine.clock, lambda: None)
        await engine.authenticator.refresh_epoch()
        kind = self._options.intake.name
        self._started = _StartedServer(
            loop,
            runtime,
            RequestIntake(engine, self._authorizer, Responder(self._encryption), self._options),
            JobRoutes(kind, self._authorizer, self._encryption).build_app(engine),
        )
        return self._started

    async def _stop(self) -> None:
        started, self._started = self._started, None
        if started is not None:
            await started.runtime.stop()


class _StartedServer(NamedTuple):
    """The parts that run on one loop of a server."""

    loop: asyncio.AbstractEventLoop
    runtime: ServerRuntime
    intake: RequestIntake
    job_routes: StarletteApp


def _build_authorizer(app: ASGIApp, authorize: Any) -> Authorizer:
    if authorize == "none":
        return AllowEveryone()
    if authorize == "fastapi-dependencies":
        return FastApiAuthorizer(app)
    if not callable(authorize):
        given = "is required" if authorize is None else f"cannot be {authorize!r}"
        raise ConfigurationError(
            f'authorize {given}: pass authorize=your_hook, authorize="fastapi-dependencies" to run '
            'a FastAPI app\'s own dependencies, or authorize="none" if its endpoints are public'
        )
    return HookAuthorizer(authorize)


def _build_handler(upstream: AppUpstream, terms: CallTerms, encryption: CallEncryption) -> Any:
    async def call_app(ctx: Context, call: WrappedCall) -> StoredResponse:
        current_job.set(CallJob(EndpointContext(ctx), call.seen))
        return await relay_call(ctx, call, upstream, terms, encryption)

    return call_app


def _log_failed_start(starting: asyncio.Task[_StartedServer]) -> None:
    """Log a failed start. This also marks the error as retrieved if nobody awaits the task."""
    if not starting.cancelled() and (error := starting.exception()) is not None:
        log.error("Coatcheck startup failed", extra={"why": str(error)})
