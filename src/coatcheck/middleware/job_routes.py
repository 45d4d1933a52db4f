"""The endpoints about jobs that the middleware adds to the app: `/v1/jobs/{id}` and below.

They are those of the canonical API, with its responses. Only authorization differs: callers of the
app have no key of ours, so a job is visible only to the caller that made it. For anybody else it
does not exist. The owner is identified by what the call came with: the credential in its header, or
the identity that `authorize` returned, then and now.
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
from coatcheck.middleware.authorize import (
    Authorizer,
    Identity,
    Rejected,
    reauthorize,
    serialize_identity,
)
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.relay.credentials import OWNER, CallEncryption
from coatcheck.relay.headers import Pairs, decode_headers
from coatcheck.relay.replay import replay_response

PATH = "/v1/jobs"
# Not for callers of the app: submitting jobs of other kinds, and acting as a worker.
_NOT_SERVED = ("/fork", "/deliveries", "/leases/")
_JOB_PATH = re.compile(r"/v1/jobs/[0-9A-HJKMNP-TV-Z]{26}(/.*)?")
# An identity from `authorize` is treated as a header of this name, which no request can have.
IDENTITY = "coatcheck identity"


class AppAuthenticator(Authenticator):
    """Leaves authentication to the wrapped app: no key is needed, even if the store has keys."""

    async def refresh_epoch(self) -> None:
        """Set a fixed epoch: keys do not matter here."""
        self.epoch, self.needs_key = 0, False

    async def authenticate(self, token: bytes | None) -> Caller:  # noqa: ARG002 - any token is fine
        """Authenticate every caller."""
        return ANONYMOUS_OPERATOR


def caller_pairs(scope: Scope, identity: Identity | None) -> Pairs:
    """Return the headers that identify a caller: the identity from `authorize` if there is one,
    otherwise the request's own headers.
    """
    if identity:
        return [(IDENTITY, serialize_identity(identity))]
    return decode_headers(scope["headers"])


def is_job_path(path: str, prefix: str) -> bool:
    """Return whether a path belongs to one of these endpoints."""
    return path.startswith(prefix) and bool(_JOB_PATH.fullmatch(path, len(prefix)))


class JobRoutes:
    """The endpoints about jobs of one kind."""

    def __init__(self, kind: str, authorizer: Authorizer, encryption: CallEncryption) -> None:
        self._kind = kind
        self._authorizer = authorizer
        self._encryption = encryption

    def build_app(self, engine: Engine) -> Starlette:
        """Build the app that serves them."""
        by_path: dict[str, dict[str, Endpoint]] = {}
        for endpoint in ENDPOINTS:
            _, found, below = endpoint.path.partition("/v1/jobs/{job_id}")
            if found and not below.startswith(_NOT_SERVED):
                by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
        app = Starlette(
            routes=[
                Route(path, self._handler(endpoints), methods=list(endpoints))
                for path, endpoints in by_path.items()
            ],
            exception_handlers={CoatcheckError: handle_error, HTTPException: handle_error},
        )
        app.router.redirect_slashes = False
        app.state.engine = engine
        app.state.error_formats = ErrorFormats({})
        app.state.surfaces = {}
        return app

    def _handler(self, endpoints: dict[str, Endpoint]) -> Handler:
        if "GET" in endpoints:
            endpoints = {**endpoints, "HEAD": endpoints["GET"]}

        async def handle(request: Request) -> Response:
            endpoint = endpoints[request.method]
            check_request(request, endpoint)
            rejection = await self._authorize(request)
            if rejection is not None:
                return rejection
            if endpoint.handler is handlers.get_result:
                response = await self._get_result(request)
            else:
                response = _rebase(request, await endpoint.handler(request))
            await ensure_confirmed()
            return response

        return handle

    async def _authorize(self, request: Request) -> Response | None:
        engine: Engine = request.app.state.engine
        scope = request.scope
        job_id = request.path_params["job_id"]
        verdict = await self._authorizer.identify(scope)
        if isinstance(verdict, Rejected):
            return _HookResponse(verdict)
        scope["coatcheck.tenant"] = DEFAULT_TENANT
        job = await named_job(request)
        pairs = caller_pairs(scope, verdict.identity)
        if job.kind != self._kind or not self._encryption.is_owner(job.labels.get(OWNER), pairs):
            raise NotFound(f"there is no job {job_id}")
        check = partial(reauthorize, self._authorizer, scope, verdict.identity)
        confirmations.set(Confirmation(check))
        scope["coatcheck.reader_of"] = job.id
        scope["coatcheck.caller"] = ANONYMOUS_OPERATOR
        scope["coatcheck.token"] = None
        scope["coatcheck.epoch"] = engine.authenticator.epoch
        return None

    async def _get_result(self, request: Request) -> Response:
        engine: Engine = request.app.state.engine
        wait = read_wait(request.query_params)
        job = await engine.wait_for_job(await named_job(request), wait)
        if job.state is State.SUCCEEDED:
            return await replay_response(engine, request, job, self._encryption)
        return _rebase(request, await handlers.get_result(request))


class _HookResponse(Response):
    """The response that `authorize` returned for a rejected caller."""

    def __init__(self, rejected: Rejected) -> None:
        assert rejected.answer is not None, "a hook's rejection has a response"
        self._app = rejected.answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await self._app(scope, receive, send)


def rebase_links(response: Response, base: str, job_id: str) -> Response:
    """Prefix the links of a response with the path at which these endpoints are served."""
    body = getattr(response, "body", b"")
    if base and body and response.media_type == JSON:
        link = f'"{PATH}/{job_id}'
        response.body = bytes(body).replace(link.encode(), f'"{base}{link[1:]}'.encode())
        response.headers["content-length"] = str(len(response.body))
    return response


def _rebase(request: Request, response: Response) -> Response:
    return rebase_links(response, request.scope["root_path"], request.path_params["job_id"])
