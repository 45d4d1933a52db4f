"""Coatcheck(app, routes=[...]): slow endpoints of an ASGI app become jobs, without changing it.

A call of one of the routes is asked about (asking.py), stored, and answered (taking_in.py): by the
endpoint itself if that is quick, else with 202 and where to come back. A worker in the same process
runs it (running.py), by calling the app with what was stored (upstream.py). All else goes to the
app as it came, but for the calls about jobs (calls.py).

Everything starts with the app's lifespan. A server that speaks no lifespan is heard of by its first
request: it starts then, and ends with the process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any, Literal

from starlette.types import ASGIApp as StarletteApp

from coatcheck.app import App
from coatcheck.engine.confirmation import current as confirmations
from coatcheck.errors import CoatcheckError, ConfigurationError
from coatcheck.http.errors import error_response, format_problem
from coatcheck.middleware.app_call import ASGIApp, Receive, Scope, Send
from coatcheck.middleware.authorize import AllowEveryone, Authorizer, Hook, HookAuthorizer
from coatcheck.middleware.context import EndpointContext
from coatcheck.middleware.fastapi_probe import FastApiAuthorizer
from coatcheck.middleware.intake import RequestIntake, RouteOptions
from coatcheck.middleware.job_routes import AppAuthenticator, JobRoutes, is_about_a_job
from coatcheck.middleware.lifespan import Lifespan
from coatcheck.middleware.marks import is_ours, target_of
from coatcheck.middleware.routes import Routes
from coatcheck.middleware.runtime import ServerRuntime
from coatcheck.middleware.upstream import AppServer, AppUpstream, CallJob, WrappedCall, made_for
from coatcheck.model.duration import Duration, milliseconds
from coatcheck.model.job import API_SURFACE
from coatcheck.model.names import NAME_RULE, is_name
from coatcheck.model.options import SurfaceOptions
from coatcheck.relay.call import StoredResponse
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.fork import forks_of
from coatcheck.relay.handler import CallTerms, OnHangup, relay_call
from coatcheck.relay.intake import IntakeOptions
from coatcheck.relay.responder import Responder
from coatcheck.settings import load_settings
from coatcheck.worker.steps.context import Context

log = logging.getLogger(__name__)

# The worker's own limit is behind that of a call, which says what happened.
_BEHIND_S = 60.0


class Coatcheck:
    """An ASGI app around another, with jobs behind some of its routes.

    `routes` are those that become jobs ("POST /render", "POST /reports/{id}", "GET /export/*").
    A caller waits up to `wait` for the answer, then gets 202; with None as long as it takes.
    `database` and all other settings are those of a Coatcheck server. `authorize` says who may
    call: see coatcheck.middleware.authorize. Apps that share a database have a `name` each.

    A call is made again after its process was lost, and after one that broke off, up to `retries`
    times: where it must not be, `repeatable=False`. An answer with one of `retry_statuses` is asked
    for again, too. `timeout` is for one attempt.
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
        authorize: Hook | Literal["none"] | None = None,
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
        self._routes = Routes.read(routes)
        self._prefix = prefix
        self._asking = _asking_of(app, authorize)
        self._settings = load_settings({"database": database})
        self._secrecy = CallEncryption()
        self._upstream = AppUpstream()
        self._manners = RouteOptions(
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
            timeout=terms.timeout_s + _BEHIND_S,
            on_lost="requeue" if repeatable else "fail",
            concurrency=concurrency,
            keep_succeeded=keep,
            surface=SurfaceOptions(
                fork_input=forks_of(WrappedCall, lambda: self._secrecy, API_SURFACE)
            ),
        )(_handler(self._upstream, terms, self._secrecy))
        self._at_work: _AtWork | None = None
        self._starting: asyncio.Task[_AtWork] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a call, or have the app answer it."""
        if scope["type"] == "lifespan":
            await Lifespan(self._app, partial(self._start, scope), self._stop).run(
                scope, receive, send
            )
        elif scope["type"] != "http" or is_ours(scope):
            await self._app(scope, receive, send)
        else:
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        # First, so that a route such as "GET /*" does not stand before them.
        is_about = is_about_a_job(scope["path"].removeprefix(root), self._prefix)
        is_call = not is_about and self._routes.have(scope)
        starting = self._started(scope)
        if not is_call and not is_about:
            await self._app(scope, receive, send)
            return
        try:
            at_work = self._at_work if starting is None else await asyncio.shield(starting)
        except CoatcheckError as error:
            await format_problem(error_response(error), scope["path"])(scope, receive, send)
            return
        assert at_work is not None, "it has started"
        confirming = confirmations.set(None)  # both set one, for this request alone
        try:
            if is_call:
                await at_work.taking_in.serve(scope, receive, send)
            else:
                below = {**scope, "root_path": root + self._prefix}
                await at_work.job_calls(below, receive, send)
        finally:
            confirmations.reset(confirming)

    # --- starting and stopping

    def _started(self, scope: Scope) -> asyncio.Task[_AtWork] | None:
        """Have it start, where no lifespan has said so; None where it has started here."""
        loop = asyncio.get_running_loop()
        if self._at_work is not None and self._at_work.loop is loop:
            return None
        starting = self._starting
        if starting is None or starting.get_loop() is not loop or starting.done():
            self._starting = starting = loop.create_task(self._start_all(scope))
            starting.add_done_callback(_look_at)
        return starting

    async def _start(self, scope: Scope) -> None:
        await self._start_all(scope)

    async def _start_all(self, scope: Scope) -> _AtWork:
        await self._asking.check()
        await asyncio.to_thread(self._secrecy.configure, self._settings)
        loop = asyncio.get_running_loop()
        if self._at_work is not None:  # on a loop that was there before this one
            self._at_work.running.leave()
        app = target_of(scope, self._app)
        self._upstream.server = AppServer(app, loop, scope.get("state") or {})
        running = ServerRuntime(self._jobs, self._settings)
        await running.start()
        engine = running.engine
        engine.authenticator = AppAuthenticator(engine.store, engine.clock, lambda: None)
        await engine.authenticator.refresh_epoch()
        self._at_work = _AtWork(
            loop,
            running,
            RequestIntake(engine, self._asking, Responder(self._secrecy), self._manners),
            JobRoutes(self._manners.keeps.name, self._asking, self._secrecy).app_for(engine),
        )
        return self._at_work

    async def _stop(self) -> None:
        at_work, self._at_work = self._at_work, None
        if at_work is not None:
            await at_work.running.stop()


class _AtWork:
    """What runs on one loop of a server."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        running: ServerRuntime,
        taking_in: RequestIntake,
        job_calls: StarletteApp,
    ) -> None:
        self.loop = loop
        self.running = running
        self.taking_in = taking_in
        self.job_calls = job_calls


def _asking_of(app: ASGIApp, authorize: Hook | Literal["none"] | None) -> Authorizer:
    if authorize is None:
        return FastApiAuthorizer(app)
    if authorize == "none":
        return AllowEveryone()
    if not callable(authorize):
        raise ConfigurationError(f'authorize is a function, or "none", not {authorize!r}')
    return HookAuthorizer(authorize)


def _handler(upstream: AppUpstream, terms: CallTerms, secrecy: CallEncryption) -> Any:
    async def call_app(ctx: Context, call: WrappedCall) -> StoredResponse:
        made_for.set(CallJob(EndpointContext(ctx), call.seen))
        return await relay_call(ctx, call, upstream, terms, secrecy)

    return call_app


def _look_at(starting: asyncio.Task[_AtWork]) -> None:
    """Whoever waits for it hears of an error; where nobody does, it was looked at."""
    if not starting.cancelled() and (error := starting.exception()) is not None:
        log.error("Coatcheck could not start: %s", error)
