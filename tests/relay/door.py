"""The smallest door: every path below /up is a call of one kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.endpoint import ANY, Endpoint, EndpointResponse
from coatcheck.http.surfaces.base import Surface
from coatcheck.http.surfaces.submit import submit_idempotent
from coatcheck.model.job import Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.relay.call import StoredCall, StoredResponse
from coatcheck.relay.credentials import OWNER, CallEncryption
from coatcheck.relay.fork import forks_of
from coatcheck.relay.handler import CallTerms, relay_call
from coatcheck.relay.headers import Pairs, pairs_of
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.intake import IntakeOptions, take
from coatcheck.relay.replay import answer_kept
from coatcheck.relay.responder import Responder, ResponderOptions, wait_of
from coatcheck.relay.upstream import Upstream
from coatcheck.worker.steps.context import Context

KIND = "call"
METHODS = ("GET", "POST", "PUT", "DELETE")


class Door(Surface):
    name = "door"

    def __init__(
        self,
        upstream: Callable[[], str],
        *,
        wait_s: float | None = 30.0,
        on_lost: Any = "requeue",
        keeps: IntakeOptions | None = None,
        **terms: Any,
    ) -> None:
        self._upstream = upstream
        self.services: dict[str, Upstream] = {}
        self._wait_s = wait_s
        self._on_lost = on_lost
        self._keeps = keeps or IntakeOptions(KIND)
        self._terms = CallTerms(KIND, self.name, **terms)
        self._secrecy = CallEncryption(lambda: b"p" * 32)
        self._reception = Responder(self._secrecy)
        self.endpoints = [
            Endpoint(
                method,
                "/up/{rest:path}",
                self._call,
                f"call{method}",
                "Call",
                "door",
                {200: EndpointResponse("The answer.", {ANY: {}})},
                kind=KIND,
                forwards_query=True,
            )
            for method in METHODS
        ]

    def declare(self, app: App) -> None:
        async def call(ctx: Context, input: StoredCall) -> StoredResponse:  # noqa: A002
            return await relay_call(ctx, input, self._service(), self._terms, self._secrecy)

        app.job(
            KIND,
            retries=self._terms.retries,
            on_lost=self._on_lost,
            surface=SurfaceOptions(
                fork_input=forks_of(StoredCall, lambda: self._secrecy, self.name)
            ),
        )(call)

    def _service(self) -> Upstream:
        url = self._upstream()
        if url not in self.services:
            self.services[url] = HttpUpstream(url)
        return self.services[url]

    async def _call(self, request: Request) -> Response:
        engine: Engine = request.app.state.engine
        taken = await take(request, engine, tenant_of(request), self._keeps, self._secrecy)

        async def submit(asked: Submission) -> Submitted:
            named = asked._replace(surface=self.name)
            return await submit_idempotent(request, named, taken.fingerprint)

        def accepted(job: Job, headers: Pairs) -> Response:
            return JSONResponse({"job": job.id}, 202, dict(headers))

        manners = ResponderOptions(
            accepted, on_hangup=self._terms.on_hangup, stall_s=self._terms.stall_s
        )
        wait = wait_of(request, self._wait_s)
        return await self._reception.receive(request, engine, taken, submit, wait, manners)

    async def result(self, request: Request, job: Job) -> Response | None:
        self.check_reader(request, job)
        return await answer_kept(request.app.state.engine, request, job, self._secrecy)

    def check_reader(self, request: Request, job: Job) -> None:
        if not self._secrecy.is_owner(job.labels.get(OWNER), pairs_of(request.scope["headers"])):
            raise NotFound("there is no such job")
