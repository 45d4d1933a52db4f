"""Making a job of a call, and answering whoever made it."""

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
    recognise_again,
)
from coatcheck.middleware.credentials import credentials_in
from coatcheck.middleware.job_routes import IDENTITY, PATH, rebased, who_calls
from coatcheck.middleware.upstream import with_what_was_seen
from coatcheck.model.job import DEFAULT_TENANT, Job
from coatcheck.relay.credentials import OWNER
from coatcheck.relay.handler import OnHangup
from coatcheck.relay.headers import Pairs
from coatcheck.relay.intake import IntakeOptions, StoredRequest, give_up, take
from coatcheck.relay.responder import Responder, ResponderOptions, wait_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RouteOptions:
    """How calls are treated that become jobs."""

    keeps: IntakeOptions  # its name is the kind's
    prefix: str
    wait_s: float | None
    on_hangup: OnHangup


class RequestIntake:
    """Makes jobs of calls, on one engine."""

    def __init__(
        self, engine: Engine, asking: Authorizer, reception: Responder, manners: RouteOptions
    ) -> None:
        self._engine = engine
        self._asking = asking
        self._reception = reception
        self._manners = manners

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a call."""
        request = Request(scope, receive)
        scope[LIMITS] = self._engine.limits
        answer: ASGIApp | None
        try:
            answer = await self._answer(request, send)
        except ClientDisconnect:
            return
        except AuthorizationMissing as error:
            log.error("%s", error)
            answer = problem_response(500, error.code, str(error))
        except (CoatcheckError, HTTPException) as error:
            answer = format_problem(error_response(error), scope["path"])
        if answer is not None:
            await answer(scope, receive, send)

    async def _answer(self, request: Request, send: Send) -> ASGIApp | None:
        body = _Body(request, self._engine, self._manners.keeps, self._reception)
        try:
            said = await self._asking.ask(request.scope, body.pieces, send)
            if isinstance(said, Rejected):
                await body.give_up()
                return said.answer
            return await self._submit(request, await body.taken(), said)
        except BaseException:
            await body.give_up()
            raise

    async def _submit(
        self, request: Request, taken: StoredRequest, authorize_submission: Authorized
    ) -> Response:
        manners, engine = self._manners, self._engine
        labels = taken.labels
        if authorize_submission.identity:
            pairs = who_calls(request.scope, authorize_submission.identity)
            owner = self._reception.secrecy.owner_of(pairs, (IDENTITY,))
            labels = {OWNER: owner or ""}
        call = with_what_was_seen(taken.call, request.scope, authorize_submission.identity)
        traceparent = read_traceparent(request)
        once = _once(taken, labels)
        replayed = False

        async def submit(asked: Submission) -> Submitted:
            nonlocal replayed
            asked = asked._replace(traceparent=traceparent)
            if once is None:
                return Submitted([await engine.submit(asked)], replayed=False)
            submitted = await engine.submit_idempotent(asked, once)
            replayed = submitted.replayed
            return submitted

        def accepted(job: Job, headers: Pairs) -> Response:
            return self._come_back_later(request, job, headers)

        again = partial(recognise_again, self._asking, request.scope, authorize_submission.identity)
        confirmations.set(Confirmation(again))
        response = await self._reception.receive(
            request,
            engine,
            taken._replace(call=call, labels=labels),
            submit,
            wait_of(request, manners.wait_s),
            ResponderOptions(accepted, on_hangup=manners.on_hangup),
        )
        if replayed:
            await give_up(engine, taken)  # it is the earlier request's body that counts
            response.raw_headers.append((REPLAYED.lower().encode(), b"true"))
        return response

    def _come_back_later(self, request: Request, job: Job, headers: Pairs) -> Response:
        base = request.scope.get("root_path", "") + self._manners.prefix
        said = {
            "Location": f"{base}{PATH}/{job.id}",
            "Retry-After": str(self._engine.retry_after(job)),
            "Coatcheck-Job": job.id,
            **dict(headers),
        }
        return rebased(Response(job_json(job), 202, said, JSON), base, job.id)


class _Body:
    """The request, taken in with its body when somebody first asks for it."""

    def __init__(
        self, request: Request, engine: Engine, keeps: IntakeOptions, reception: Responder
    ) -> None:
        self._request = request
        self._engine = engine
        self._keeps = replace(keeps, secret=credentials_in(request.scope["headers"]))
        self._secrecy = reception.secrecy
        self._taken: StoredRequest | None = None

    async def taken(self) -> StoredRequest:
        """Return what was taken in, durably; raises what is wrong with the request."""
        if self._taken is None:
            self._taken = await take(
                self._request, self._engine, DEFAULT_TENANT, self._keeps, self._secrecy
            )
        return self._taken

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read the body from its beginning."""
        call = (await self.taken()).call
        if call.upload is not None:
            upload = await self._engine.uploads.get(call.upload.upload, DEFAULT_TENANT)
            async for piece in await self._engine.payload_store.stream(upload):
                yield piece
        elif call.body is not None:
            yield call.body.content

    async def give_up(self) -> None:
        """Remove what no job has taken over."""
        taken, self._taken = self._taken, None
        if taken is not None:
            await give_up(self._engine, taken)


def _once(taken: StoredRequest, labels: dict[str, str]) -> IdempotencyKey | None:
    """Return the caller's key for this request: it is theirs alone."""
    key = taken.call.idempotency_key
    if key is None:
        return None
    own = hashlib.sha256(f"{labels.get(OWNER, '')}\0{key}".encode()).hexdigest()
    return IdempotencyKey(own, " ".join(taken.fingerprint))
