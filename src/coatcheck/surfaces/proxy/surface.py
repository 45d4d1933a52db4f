"""The proxy surface: one kind and one endpoint for each rule."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.app import App
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import Fail, NotFound
from coatcheck.http.auth.caller import tenant_of
from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    Endpoint,
    EndpointResponse,
    Handler,
    as_json,
    ref,
)
from coatcheck.http.jobs.handlers import job_response
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.http.surfaces.submit import submit_idempotent
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.relay.call import StoredCall, StoredResponse
from coatcheck.relay.credentials import OWNER, CallEncryption, fork_input_for
from coatcheck.relay.handler import STORE_S, relay_call
from coatcheck.relay.headers import Pairs
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.intake import caller_headers, has_dot_segment, store_request
from coatcheck.relay.replay import replay_response
from coatcheck.relay.responder import Responder, ResponderOptions, read_caller_wait
from coatcheck.settings import Settings
from coatcheck.surfaces.proxy.rule import RESERVED, SURFACE, Rule
from coatcheck.worker.steps.context import Context

# Time to fetch the request body, beyond the call itself and storing its response. The worker's
# timeout is a safety net: it must not end a call in progress that is not repeatable.
EXTRA_S = 600.0
CONNECT_S = 2.0


class ProxySurface(Surface):
    """Endpoints of other services, each defined by a rule."""

    name = SURFACE

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._encryption = CallEncryption()
        self._responder = Responder(self._encryption)
        self.endpoints = [_build_endpoint(rule, self._handler(rule)) for rule in rules]

    def configure(self, settings: Settings) -> None:
        """Configure the encryption of secrets."""
        self._encryption.configure(settings)

    def declare(self, app: App) -> None:
        """Declare a kind for each rule."""
        for rule in self._rules:
            app.job(
                rule.kind,
                retries=rule.retries,
                timeout=rule.timeout_s + STORE_S + EXTRA_S,
                on_lost="requeue" if rule.repeatable else "fail",
                queue=rule.kind,
                keep_succeeded=rule.keep_s,
                keep_failed=rule.keep_s,
                concurrency=rule.concurrency,
                surface=SurfaceOptions(
                    fork_input=fork_input_for(StoredCall, lambda: self._encryption, SURFACE)
                ),
            )(_build_job_handler(rule, self._encryption))

    def optional_parts(self) -> Iterable[OptionalPart]:
        """List the rules, and whether their upstreams can be reached."""
        for rule in self._rules:
            description = f"{rule.match} is forwarded to {rule.target} ({rule.kind})"
            error = _connection_error(rule.target)
            if error is None:
                yield OptionalPart(description)
            else:
                advice = "start it, or correct the rule; its jobs wait until it can be reached"
                yield OptionalPart(f"{description}, which cannot be reached: {error}", advice)

    async def result(self, request: Request, job: Job) -> Response | None:
        """Replay the upstream's response."""
        return await replay_response(request.app.state.engine, request, job, self._encryption)

    def check_reader(self, request: Request, job: Job) -> None:
        """Raise NotFound unless a request has the credential that the call came with."""
        engine: Engine = request.app.state.engine
        pairs = caller_headers(request, engine)
        if not self._encryption.is_owner(job.labels.get(OWNER), pairs):
            raise NotFound(f"there is no job {job.id}")

    def _handler(self, rule: Rule) -> Handler:
        async def forward(request: Request) -> Response:
            """Forward a call to the rule's upstream, as a job: the response if it comes in time,
            otherwise a 202.
            """
            if request.scope["path"].split("/")[1] in RESERVED:
                raise NotFound("there is nothing at this address")
            engine: Engine = request.app.state.engine
            stored = await store_request(
                request, engine, tenant_of(request), rule.intake, self._encryption
            )

            async def submit(submission: Submission) -> Submitted:
                submission = submission._replace(surface=SURFACE)
                return await submit_idempotent(request, submission, stored.fingerprint)

            def accepted(job: Job, headers: Pairs) -> Response:
                location = {"Location": f"/v1/jobs/{job.id}", "Coatcheck-Job": job.id}
                return job_response(engine, job, 202, {**location, **dict(headers)})

            wait = read_caller_wait(request, rule.wait_s)
            options = ResponderOptions(accepted, on_hangup=rule.on_hangup)
            return await self._responder.respond(request, engine, stored, submit, wait, options)

        return forward


def _build_job_handler(
    rule: Rule, encryption: CallEncryption
) -> Callable[[Context, StoredCall], Awaitable[StoredResponse]]:
    upstream, terms = HttpUpstream(rule.target), rule.terms

    async def forward(ctx: Context, call: StoredCall) -> StoredResponse:
        # A client can also submit the job itself: it reaches what the rule matches, nothing else.
        path = unquote(call.path.partition("?")[0])
        if not rule.match.matches(call.method, call.path) or has_dot_segment(path):
            raise Fail("not-for-this-rule", f"the rule {rule.name} matches {rule.match} only")
        return await relay_call(ctx, call, upstream, terms, encryption)

    return forward


def _build_endpoint(rule: Rule, handler: Handler) -> Endpoint:
    return Endpoint(
        rule.match.method,
        rule.match.route,
        handler,
        f"proxy.{rule.name}",
        f"Forward {rule.match}",
        "proxy",
        {
            200: EndpointResponse("The upstream's response, whatever its status.", {ANY: {}}),
            202: EndpointResponse(
                "The response takes longer than the caller waits; fetch it from the job.",
                as_json(ref("Job")),
                ("Location", "Retry-After", "Preference-Applied"),
            ),
        },
        error_statuses=(404, 408, 409, 410, 413, 422, 429, 502, 504),
        parameters=(IDEMPOTENCY_KEY, TRACEPARENT),
        needs=Scope.WRITE,
        kind=rule.kind,
        forwards_query=True,
    )


def _connection_error(target: str) -> str | None:
    parts = urlsplit(target)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), CONNECT_S):
            return None
    except OSError as error:
        return error.strerror or "no answer in time"
