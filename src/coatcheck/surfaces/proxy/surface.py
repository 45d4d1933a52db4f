"""The surface itself: a kind and a call for each rule."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.app import App
from coatcheck.errors import Fail
from coatcheck.http.endpoint import (
    ANY,
    IDEMPOTENCY_KEY,
    TRACEPARENT,
    Endpoint,
    EndpointResponse,
    as_json,
    ref,
)
from coatcheck.http.surfaces.base import OptionalPart, Surface
from coatcheck.model.access import Scope
from coatcheck.model.job import Job
from coatcheck.model.options import SurfaceOptions
from coatcheck.relay.call import StoredCall, StoredResponse
from coatcheck.relay.credentials import CallEncryption
from coatcheck.relay.fork import forks_of
from coatcheck.relay.handler import KEEP_S, relay_call
from coatcheck.relay.http_upstream import HttpUpstream
from coatcheck.relay.intake import leads_elsewhere
from coatcheck.settings import Settings
from coatcheck.surfaces.proxy.handlers import ProxyHandlers
from coatcheck.surfaces.proxy.rule import SURFACE, Rule
from coatcheck.worker.steps.context import Context

# Beyond what a call and keeping its answer may take: to fetch its body. The worker's own timer is a
# net below; it must not strike while a call is under way that must not be made twice.
SPARE_S = 600.0
REACH_S = 2.0


class ProxySurface(Surface):
    """Endpoints of other services, each by a rule."""

    name = SURFACE

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self._secrecy = CallEncryption()
        self._calls = ProxyHandlers(self._secrecy)
        self.endpoints = [_endpoint(rule, self._calls) for rule in rules]

    def configure(self, settings: Settings) -> None:
        """Take the pepper, under which secrets are sealed."""
        self._secrecy.configure(settings)

    def declare(self, app: App) -> None:
        """Declare a kind for each rule."""
        for rule in self._rules:
            app.job(
                rule.kind,
                retries=rule.retries,
                timeout=rule.timeout_s + KEEP_S + SPARE_S,
                on_lost="requeue" if rule.repeatable else "fail",
                queue=rule.kind,
                keep_succeeded=rule.keep_s,
                keep_failed=rule.keep_s,
                concurrency=rule.concurrency,
                surface=SurfaceOptions(
                    fork_input=forks_of(StoredCall, lambda: self._secrecy, SURFACE)
                ),
            )(_handler(rule, self._secrecy))

    def optional_parts(self) -> Iterable[OptionalPart]:
        """Say which rules there are, and whether their targets can be reached."""
        for rule in self._rules:
            said = f"{rule.match} is handed on to {rule.target} ({rule.kind})"
            why = _why_unreachable(rule.target)
            if why is None:
                yield OptionalPart(said)
            else:
                advice = "start it, or correct the rule; its jobs wait until it can be reached"
                yield OptionalPart(f"{said}, which cannot be reached: {why}", advice)

    async def result(self, request: Request, job: Job) -> Response | None:
        """Answer as the target did."""
        return await self._calls.result(request, job)

    def check_reader(self, request: Request, job: Job) -> None:
        """Raise NotFound unless a request comes with the credential that the call came with."""
        self._calls.check_reader(request, job)


def _handler(
    rule: Rule, secrecy: CallEncryption
) -> Callable[[Context, StoredCall], Awaitable[StoredResponse]]:
    upstream, terms = HttpUpstream(rule.target), rule.terms

    async def hand_on(ctx: Context, call: StoredCall) -> StoredResponse:
        # A job can also be submitted by hand: it reaches what the rule is for, and nothing else.
        if not rule.match.matches(call.method, call.path) or leads_elsewhere(
            unquote(call.path.partition("?")[0])
        ):
            raise Fail("not-for-this-rule", f"the rule {rule.name} is for {rule.match} only")
        return await relay_call(ctx, call, upstream, terms, secrecy)

    return hand_on


def _endpoint(rule: Rule, calls: ProxyHandlers) -> Endpoint:
    return Endpoint(
        rule.match.method,
        rule.match.route,
        calls.by(rule),
        f"proxy.{rule.name}",
        f"Handed on: {rule.match}",
        "proxy",
        {
            200: EndpointResponse("What the target has answered, whatever its status.", {ANY: {}}),
            202: EndpointResponse(
                "It takes longer: come back for the answer.",
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


def _why_unreachable(target: str) -> str | None:
    parts = urlsplit(target)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), REACH_S):
            return None
    except OSError as error:
        return error.strerror or "no answer in time"
