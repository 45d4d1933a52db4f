"""A minimal surface: every path below /up is a relayed call of one kind."""

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
from coatcheck.relay.credentials import OWNER, CallEncryption, fork_input_for
from coatcheck.relay.handler import CallTerms, relay_call
from coatcheck.relay.headers import Pairs, decode_headers
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.intake import IntakeOptions, store_request
from coatcheck.relay.replay import replay_response
from coatcheck.relay.responder import Responder, ResponderOptions, read_caller_wait
from coatcheck.relay.upstream import Upstream
from coatcheck.worker.steps.context import Context

KIND = "call"
METHODS = ("GET", "POST", "PUT", "DELETE")


class RelaySurface(Surface):
    name = "relay-test"

    def __init__(
        self,
        upstream: Callable[[], str],
        *,
        wait_s: float | None = 30.0,
        on_lost: Any = "requeue",
        intake: IntakeOptions | None = None,
        **terms: Any,
    ) -> None:
        self._upstream = upstream
        self.services: dict[str, Upstream] = {}
        self._wait_s = wait_s
        self._on_lost = on_lost
        self._intake = intake or IntakeOptions(KIND)
        self._terms = CallTerms(KIND, self.name, **terms)
        self._encryption = CallEncryption(lambda: b"p" * 32)
        self._responder = Responder(self._encryption)
        self.endpoints = [
            Endpoint(
                method,
                "/up/{rest:path}",
                self._call,
                f"call{method}",
                "Call",
                "relay-test",
                {200: EndpointResponse("The answer.", {ANY: {}})},
                kind=KIND,
                forwards_query=True,
            )
            for method in METHODS
        ]

    def declare(self, app: App) -> None:
        async def call(ctx: Context, input: StoredCall) -> StoredResponse:  # noqa: A002
            return await relay_call(ctx, input, self._service(), self._terms, self._encryption)

        app.job(
            KIND,
            retries=self._terms.retries,
            on_lost=self._on_lost,
            surface=SurfaceOptions(
                fork_input=fork_input_for(StoredCall, lambda: self._encryption, self.name)
            ),
        )(call)

    def _service(self) -> Upstream:
        url = self._upstream()
        if url not in self.services:
            self.services[url] = HttpUpstream(url)
        return self.services[url]

    async def _call(self, request: Request) -> Response:
        engine: Engine = request.app.state.engine
        stored = await store_request(
            request, engine, tenant_of(request), self._intake, self._encryption
        )

        async def submit(submission: Submission) -> Submitted:
            submission = submission._replace(surface=self.name)
            return await submit_idempotent(request, submission, stored.fingerprint)

        def accepted(job: Job, headers: Pairs) -> Response:
            return JSONResponse({"job": job.id}, 202, dict(headers))

        options = ResponderOptions(
            accepted, on_hangup=self._terms.on_hangup, stall_s=self._terms.stall_s
        )
        wait = read_caller_wait(request, self._wait_s)
        return await self._responder.respond(request, engine, stored, submit, wait, options)

    async def result(self, request: Request, job: Job) -> Response | None:
        self.check_reader(request, job)
        return await replay_response(request.app.state.engine, request, job, self._encryption)

    def check_reader(self, request: Request, job: Job) -> None:
        if not self._encryption.is_owner(
            job.labels.get(OWNER), decode_headers(request.scope["headers"])
        ):
            raise NotFound("there is no such job")
