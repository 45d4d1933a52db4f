"""The calls about handlers, beside the wrapped app: `/v1/jobs/{id}` and what is below it.

They are those of the canonical API, with its answers. The door is another: whoever may call the app
has no key of ours, so a job is shown to who has made it and to nobody else. For others it is not
there. Who that is, is told by what they came with when they made the call: the credential in its
header, or what `authorize` says of them, then and now.
"""

from __future__ import annotations

import re
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from coatcheck.engine.auth import ANONYMOUS_OPERATOR, Authenticator, Caller
from coatcheck.engine.confirmation import Confirmation, ensure_confirmed
from coatcheck.engine.confirmation import current as confirmations
from coatcheck.engine.engine import Engine
from coatcheck.errors import CoatcheckError, NotFound
from coatcheck.http.auth.readers import named_job
from coatcheck.http.endpoint import JSON, Endpoint, Handler
from coatcheck.http.errors import ErrorFormats, handle_error
from coatcheck.http.jobs import handlers
from coatcheck.http.request.negotiation import check_request
from coatcheck.http.request.query import read_wait
from coatcheck.http.routes import ENDPOINTS
from coatcheck.middleware.app_call import Receive, Scope, Send
from coatcheck.middleware.authorize import Authorizer, Identity, Rejected, recognise_again, written
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.relay.credentials import OWNER, CallEncryption
from coatcheck.relay.headers import Pairs, pairs_of
from coatcheck.relay.replay import answer_kept

PATH = "/v1/jobs"
# What is not for callers of the app: to make jobs of other handlers, or to be a worker.
_NOT_SERVED = ("/fork", "/deliveries", "/leases/")
_ABOUT_A_JOB = re.compile(r"/v1/jobs/[0-9A-HJKMNP-TV-Z]{26}(/.*)?")
# What `authorize` says of a caller counts like a header; no request has one of this name.
IDENTITY = "coatcheck identity"


class AppAuthenticator(Authenticator):
    """The wrapped app decides who comes in: whatever keys of ours there are, none is asked for."""

    async def confirm(self) -> None:
        """Look at nothing."""
        self.epoch, self.needs_key = 0, False

    async def authenticate(self, token: bytes | None) -> Caller:  # noqa: ARG002 - whatever it is
        """Let everybody in."""
        return ANONYMOUS_OPERATOR


def who_calls(scope: Scope, identity: Identity | None) -> Pairs:
    """Return what tells who makes a call: what `authorize` said, else its headers."""
    if identity:
        return [(IDENTITY, written(identity))]
    return pairs_of(scope["headers"])


def is_about_a_job(path: str, prefix: str) -> bool:
    """Tell whether a path is one of these calls."""
    return path.startswith(prefix) and bool(_ABOUT_A_JOB.fullmatch(path, len(prefix)))


class JobRoutes:
    """These calls, for the jobs of one kind."""

    def __init__(self, kind: str, asking: Authorizer, secrecy: CallEncryption) -> None:
        self._kind = kind
        self._asking = asking
        self._secrecy = secrecy

    def app_for(self, engine: Engine) -> Starlette:
        """Make the app that answers them."""
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in ENDPOINTS:
            about = endpoint.path.partition("/v1/jobs/{job_id}")
            if about[1] and not about[2].startswith(_NOT_SERVED):
                by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        app = Starlette(
            routes=[
                Route(path, self._answering(found), methods=list(found))
                for path, found in by_path.items()
            ],
            exception_handlers={CoatcheckError: handle_error, HTTPException: handle_error},
        )
        app.router.redirect_slashes = False
        app.state.engine = engine
        app.state.error_formats = ErrorFormats({})
        app.state.surfaces = {}
        return app

    def _answering(self, endpoints: dict[str, Endpoint]) -> Handler:
        if "GET" in endpoints:
            endpoints = {**endpoints, "HEAD": endpoints["GET"]}

        async def answer(request: Request) -> Response:
            endpoint = endpoints[request.method]
            check_request(request, endpoint)
            refused = await self._let_in(request)
            if refused is not None:
                return refused
            if endpoint.handler is handlers.get_result:
                response = await self._result(request)
            else:
                response = _rebased(request, await endpoint.handler(request))
            await ensure_confirmed()
            return response

        return answer

    async def _let_in(self, request: Request) -> Response | None:
        engine: Engine = request.app.state.engine
        scope = request.scope
        job_id = request.path_params["job_id"]
        said = await self._asking.recognise(scope)
        if isinstance(said, Rejected):
            return _Given(said)
        scope["coatcheck.tenant"] = DEFAULT_TENANT
        job = await named_job(request)
        pairs = who_calls(scope, said.identity)
        if job.kind != self._kind or not self._secrecy.is_owner(job.labels.get(OWNER), pairs):
            raise NotFound(f"there is no job {job_id}")
        again = partial(recognise_again, self._asking, scope, said.identity)
        confirmations.set(Confirmation(again))
        scope["coatcheck.reader_of"] = job.id
        scope["coatcheck.caller"] = ANONYMOUS_OPERATOR
        scope["coatcheck.token"] = None
        scope["coatcheck.epoch"] = engine.authenticator.epoch
        return None

    async def _result(self, request: Request) -> Response:
        engine: Engine = request.app.state.engine
        wait = read_wait(request.query_params)
        job = await engine.wait_for_job(await named_job(request), wait)
        if job.state is State.SUCCEEDED:
            return await answer_kept(engine, request, job, self._secrecy)
        return _rebased(request, await handlers.get_result(request))


class _Given(Response):
    """What `authorize` says to give instead."""

    def __init__(self, refused: Rejected) -> None:
        assert refused.answer is not None, "a hook's refusal has an answer"
        self._answer = refused.answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await self._answer(scope, receive, send)


def rebased(response: Response, base: str, job_id: str) -> Response:
    """Return an answer whose links lead to where these calls are."""
    body = getattr(response, "body", b"")
    if base and body and response.media_type == JSON:
        link = f'"{PATH}/{job_id}'
        response.body = bytes(body).replace(link.encode(), f'"{base}{link[1:]}'.encode())
        response.headers["content-length"] = str(len(response.body))
    return response


def _rebased(request: Request, response: Response) -> Response:
    return rebased(response, request.scope["root_path"], request.path_params["job_id"])
