"""Authorization: the caller of a request, its permissions, and the tenant it acts for.

The middleware has authenticated the caller (auth/middleware.py). A request acts for one tenant, the
caller's own, and resources of any other tenant do not exist for it. The operator may name another
tenant with `?tenant=`. So may a worker's key, to report on a job, and to read the input, steps and
artifacts of a job that it holds a lease on; any other job answers 404.

A scope may be limited to some kinds. Each endpoint declares which kinds a request touches
(`Endpoint.kind`), and `authorize` enforces it. If only the request body or query names the kind,
`tenant_of` raises Forbidden until the handler has passed that kind to `check_kind`: a handler that
forgets the check cannot reach any data.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Scope as ASGIScope

from coatcheck.engine.auth import Admission, Caller
from coatcheck.engine.engine import Engine
from coatcheck.engine.remote_workers import is_held_by
from coatcheck.errors import Forbidden, NotFound, Unauthorized
from coatcheck.http.auth.readers import check_reader, named_job
from coatcheck.http.endpoint import TENANT, Access, Endpoint, KindRule
from coatcheck.model.access import OPERATOR, Quotas, Scope
from coatcheck.model.audit import ANONYMOUS
from coatcheck.model.names import NAME_RULE, is_name

_BEARER = b"bearer "
KEY_PREFIX = b"ck_"
_WITHHELD = "coatcheck.withheld_tenant"


def token_of(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the API key of a request."""
    given = headers.get(b"authorization")
    api_key = headers.get(b"x-api-key")
    if given is not None and given[:7].lower() == _BEARER:
        token = given[7:].strip()
        # A proxied request may have a bearer token for the upstream, and our key in X-Api-Key.
        return token if api_key is None or token.startswith(KEY_PREFIX) else api_key
    return api_key


def caller_of(request: Request) -> Caller:
    """Return the authenticated caller."""
    caller: Caller = request.scope["coatcheck.caller"]
    return caller


def actor_of(request: Request) -> str:
    """Return the actor for the audit trail: the id of the caller's key."""
    return caller_of(request).key_id or ANONYMOUS


def tenant_of(request: Request) -> str:
    """Return the tenant that a request acts for."""
    try:
        tenant: str = request.scope["coatcheck.tenant"]
    except KeyError:
        raise Forbidden("this key is limited to some kinds: name one of them") from None
    return tenant


def quotas_of(request: Request) -> Quotas | None:
    """Return the quotas for a submit; None if the operator submits for another tenant."""
    caller = caller_of(request)
    return caller.quotas if caller.tenant == tenant_of(request) else None


async def authorize(request: Request, endpoint: Endpoint) -> None:
    """Raise Forbidden or NotFound unless the caller may use this endpoint; record the tenant."""
    scope = endpoint.scope
    if scope is None:
        return
    caller = caller_of(request)
    _check_scope(caller, endpoint, scope)
    tenant = caller.tenant
    if endpoint.takes_tenant and request.scope["query_string"]:
        tenant = request.query_params.get(TENANT.name, tenant)
    request.scope["coatcheck.tenant"] = tenant
    if tenant != caller.tenant:
        await _check_named_tenant(request, endpoint, scope)
    if caller.kinds_for(scope) is not None:
        await _check_endpoint_kind(request, endpoint, scope)


def _check_scope(caller: Caller, endpoint: Endpoint, scope: Scope) -> None:
    if not caller.may(scope):
        raise Forbidden(f"this key does not have the scope {scope}")
    whole = endpoint.access is Access.OPERATOR or scope is Scope.WORK
    if whole and caller.tenant != OPERATOR:
        raise Forbidden(f"this needs a key of the tenant {OPERATOR!r}")


async def _check_named_tenant(request: Request, endpoint: Endpoint, scope: Scope) -> None:
    caller, tenant = caller_of(request), tenant_of(request)
    if not is_name(tenant):
        raise HTTPException(400, f"invalid tenant name: {NAME_RULE}")
    if scope is Scope.WORK:
        return  # an operator key; workers/handlers.py checks the lease
    if caller.is_operator:
        engine: Engine = request.app.state.engine
        await engine.authenticator.tenant(tenant)
    elif endpoint.for_lease_holder and caller.tenant == OPERATOR and caller.may(Scope.WORK):
        await _check_lease(request, caller)
    else:
        raise Forbidden("this key may only act for its own tenant")


async def _check_lease(request: Request, caller: Caller) -> None:
    """Raise NotFound unless the caller's key holds a lease on the job that the path names.

    The lease holder may read the job, regardless of its submitter.
    """
    job_id = request.path_params["job_id"]
    with suppress(NotFound):
        job = await named_job(request)
        if caller.key_id is not None and is_held_by(job, caller.key_id):
            request.scope["coatcheck.reader_of"] = job.id
            return
    raise NotFound(f"there is no job {job_id} that this key holds a lease on")


async def _check_endpoint_kind(request: Request, endpoint: Endpoint, scope: Scope) -> None:
    """Enforce the endpoint's kind rule on a key that is limited to some kinds."""
    engine: Engine = request.app.state.engine
    caller = caller_of(request)
    match endpoint.kind:
        case str(kind):
            caller.check_kind(scope, kind)
        case KindRule.JOB:
            job = await named_job(request)
            if scope is not Scope.WORK:
                check_reader(request, job, request.path_params["job_id"])
            caller.check_kind(scope, job.kind)
        case KindRule.SCHEDULE:
            await _check_schedule_kind(request, scope)
        case KindRule.DECLARED:
            if not (caller.kinds_for(scope) or frozenset()) & engine.kinds.keys():
                raise Forbidden(f"this server has no kind that this key has the scope {scope} for")
        case KindRule.REQUEST:
            _withhold_tenant(request)
        case _:
            raise Forbidden(f"this needs the scope {scope} for all kinds")


async def _check_schedule_kind(request: Request, scope: Scope) -> None:
    engine: Engine = request.app.state.engine
    tenant = tenant_of(request)
    is_put = request.method == "PUT"
    if is_put:
        _withhold_tenant(request)  # the body names the kind that the schedule will have
    try:
        found = await engine.schedules.get(request.path_params["schedule"], tenant)
    except NotFound:
        if not is_put:
            raise
    else:
        caller_of(request).check_kind(scope, found.definition.kind)


def _withhold_tenant(request: Request) -> None:
    request.scope[_WITHHELD] = request.scope.pop("coatcheck.tenant")


def check_kind(request: Request, scope: Scope, kind: str | None) -> None:
    """Raise Forbidden unless the caller has a scope for this kind; None means all kinds."""
    caller = caller_of(request)
    kinds = caller.kinds_for(scope)
    if kinds is None:
        return
    if kind is None:
        raise Forbidden(f"this key has the scope {scope} for some kinds only: name one of them")
    caller.check_kind(scope, kind)
    if _WITHHELD in request.scope:
        request.scope["coatcheck.tenant"] = request.scope.pop(_WITHHELD)


def admission_of(request: Request, kind: str | None = None) -> Admission:
    """Return the authorization of a submit; `kind` is checked again if only the body names it."""
    scope = request.scope
    return Admission(scope["coatcheck.epoch"], quotas_of(request), partial(_renew, request, kind))


async def _renew(request: Request, kind: str | None) -> Admission:
    await _authenticate_again(request)
    if kind is not None:
        check_kind(request, Scope.WRITE, kind)
    return admission_of(request, kind)


async def _authenticate_again(request: Request) -> None:
    engine: Engine = request.app.state.engine
    authenticator, scope = engine.authenticator, request.scope
    caller = await authenticator.authenticate_fresh(scope["coatcheck.token"])
    record_caller(scope, caller, authenticator.epoch)


def record_caller(scope: ASGIScope, caller: Caller, epoch: int | None) -> None:
    """Record that the caller of a request was authenticated again, and the access epoch.

    A key's scopes never change, so its authorization stays valid. Raise Unauthorized if the key is
    a different one.
    """
    earlier: Caller = scope["coatcheck.caller"]
    # An operator's key may do everything that a server without keys allows.
    is_same = caller.key_id == earlier.key_id or (earlier.key_id is None and caller.is_operator)
    if not is_same:
        raise Unauthorized("the first key was created during this request: repeat it with a key")
    scope["coatcheck.caller"] = caller
    scope["coatcheck.epoch"] = epoch
