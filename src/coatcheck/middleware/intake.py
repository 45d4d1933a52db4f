"""Submitting a call as a job, and responding to its caller."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from coatcheck.engine.confirmation import Confirmation
from coatcheck.engine.confirmation import current as confirmations
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.engine.submit.submission import Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.errors import CoatcheckError
from coatcheck.http.endpoint import JSON
from coatcheck.http.errors import error_response, format_problem, problem_response
from coatcheck.http.jobs.handlers import read_traceparent
from coatcheck.http.jobs.views import job_json
from coatcheck.http.request.body import LIMITS
from coatcheck.http.request.idempotency import REPLAYED
from coatcheck.middleware.app_call import ASGIApp, Receive, Scope, Send
from coatcheck.middleware.authorize import (
    AuthorizationMissing,
    Authorized,
    Authorizer,
    Rejected,
    reauthorize,
)
from coatcheck.middleware.job_routes import IDENTITY, PATH, caller_pairs, rebase_links
from coatcheck.middleware.upstream import with_scope_details
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.relay.credentials import OWNER
from coatcheck.relay.handler import OnHangup
from coatcheck.relay.headers import Pairs, find_custom_credentials
from coatcheck.relay.intake import IntakeOptions, StoredRequest, discard_request, store_request
from coatcheck.relay.responder import Responder, ResponderOptions, read_caller_wait

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """Options of the routes whose calls become jobs."""

    intake: IntakeOptions  # its name is the kind
    prefix: str
    wait_s: float | None
    on_hangup: OnHangup


class RequestIntake:
    """Submits calls as jobs of one engine."""

    def __init__(
        self, engine: Engine, authorizer: Authorizer, responder: Responder, options: RouteOptions
    ) -> None:
        self._engine = engine
        self._authorizer = authorizer
        self._responder = responder
        self._options = options

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a call."""
        request = Request(scope, receive)
        scope[LIMITS] = self._engine.limits
        response: ASGIApp | None
        try:
            response = await self._respond(request, send)
        except ClientDisconnect:
            return
        except AuthorizationMissing as error:
            log.error("authorization missing", extra={"why": str(error)})
            response = problem_response(500, error.code, str(error))
        except (CoatcheckError, HTTPException) as error:
            response = format_problem(error_response(error), scope["path"])
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request, send: Send) -> ASGIApp | None:
        lazy = _LazyRequest(request, self._engine, self._options.intake, self._responder)
        try:
            verdict = await self._authorizer.authorize(request.scope, lazy.read_body, send)
            if isinstance(verdict, Rejected):
                await lazy.discard()
                return verdict.answer
            return await self._submit(request, await lazy.stored(), verdict)
        except BaseException:
            await lazy.discard()
            raise

    async def _submit(
        self, request: Request, stored: StoredRequest, authorized: Authorized
    ) -> Response:
        options, engine = self._options, self._engine
        identity = authorized.identity
        labels = stored.labels
        if identity:
            pairs = caller_pairs(request.scope, identity)
            owner = self._responder.encryption.mark_owner(pairs, (IDENTITY,))
            labels = {OWNER: owner or ""}
        call = with_scope_details(stored.call, request.scope, identity)
        traceparent = read_traceparent(request)
        key = _idempotency_key(stored, labels)
        replayed = False

        async def submit(submission: Submission) -> Submitted:
            nonlocal replayed
            submission = submission._replace(traceparent=traceparent)
            if key is None:
                return Submitted([await engine.submit(submission)], replayed=False)
            submitted = await engine.submit_idempotent(submission, key)
            replayed = submitted.replayed
            return submitted

        def accepted(job: Job, headers: Pairs) -> Response:
            return self._accepted(request, job, headers)

        check = partial(reauthorize, self._authorizer, request.scope, identity)
        confirmations.set(Confirmation(check))
        response = await self._responder.respond(
            request,
            engine,
            stored._replace(call=call, labels=labels),
            submit,
            read_caller_wait(request, options.wait_s),
            ResponderOptions(accepted, on_hangup=options.on_hangup),
        )
        if replayed:
            await discard_request(engine, stored)  # the body of the first request counts
            response.raw_headers.append((REPLAYED.lower().encode(), b"true"))
        return response

    def _accepted(self, request: Request, job: Job, headers: Pairs) -> Response:
        base = request.scope.get("root_path", "") + self._options.prefix
        own_headers = {
            "Location": f"{base}{PATH}/{job.id}",
            "Retry-After": str(self._engine.retry_after(job)),
            "Coatcheck-Job": job.id,
            **dict(headers),
        }
        return rebase_links(Response(job_json(job), 202, own_headers, JSON), base, job.id)


class _LazyRequest:
    """A request that is stored, with its body, when it is first needed."""

    def __init__(
        self, request: Request, engine: Engine, options: IntakeOptions, responder: Responder
    ) -> None:
        self._request = request
        self._engine = engine
        self._options = replace(options, secret=find_custom_credentials(request.scope["headers"]))
        self._encryption = responder.encryption
        self._stored: StoredRequest | None = None

    async def stored(self) -> StoredRequest:
        """Return the durably stored request; raises the 4xx that fits."""
        if self._stored is None:
            self._stored = await store_request(
                self._request, self._engine, DEFAULT_TENANT, self._options, self._encryption
            )
        return self._stored

    async def read_body(self) -> AsyncIterator[bytes]:
        """Read the body from its start."""
        call = (await self.stored()).call
        if call.upload is not None:
            upload = await self._engine.uploads.get(call.upload.upload, DEFAULT_TENANT)
            async for piece in await self._engine.payload_store.stream(upload):
                yield piece
        elif call.body is not None:
            yield call.body.content

    async def discard(self) -> None:
        """Delete what no job uses."""
        stored, self._stored = self._stored, None
        if stored is not None:
            await discard_request(self._engine, stored)


def _idempotency_key(stored: StoredRequest, labels: dict[str, str]) -> IdempotencyKey | None:
    """Return the caller's idempotency key for this request. Keys of other callers differ."""
    key = stored.call.idempotency_key
    if key is None:
        return None
    own_key = hashlib.sha256(f"{labels.get(OWNER, '')}\0{key}".encode()).hexdigest()
    return IdempotencyKey(own_key, " ".join(stored.fingerprint))
