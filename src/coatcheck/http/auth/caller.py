"""Who asks, whether they may, and for whom.

The door has let the caller in (http/auth/middleware.py); here it is looked at what for. A call acts
for one tenant, the caller's own, and finds nothing of any other: what belongs to somebody else is
as good as not there. The operator may name another tenant with `?tenant=`. So may a worker's key,
to report on a job, and to read the input, steps and artifacts of a job that it holds a lease on;
for any other job it gets 404.

A scope may be for some kinds only. Each endpoint declares which kinds a call touches
(`Endpoint.kind`), and `authorize` enforces it. If only the request body or query names the kind,
`tenant_of` raises Forbidden until the handler has passed that kind to `check_kind`: a handler that
forgets to check cannot reach any data.
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
    """Return the key a request came with."""
    given = headers.get(b"authorization")
    beside = headers.get(b"x-api-key")
    if given is not None and given[:7].lower() == _BEARER:
        token = given[7:].strip()
        # On its way to somebody else a request may carry a credential for them, and our key beside.
        return token if beside is None or token.startswith(KEY_PREFIX) else beside
    return beside


def caller_of(request: Request) -> Caller:
    """Return who asks."""
    caller: Caller = request.scope["coatcheck.caller"]
    return caller


def actor_of(request: Request) -> str:
    """Return whom the audit trail names: the caller's key."""
    return caller_of(request).key_id or ANONYMOUS


def tenant_of(request: Request) -> str:
    """Return for whom a call acts."""
    try:
        tenant: str = request.scope["coatcheck.tenant"]
    except KeyError:
        raise Forbidden("this key has the scope for some kinds only: name one of them") from None
    return tenant


def quotas_of(request: Request) -> Quotas | None:
    """Return the quotas that hold for what is handed in; the operator, for others, has none."""
    caller = caller_of(request)
    return caller.quotas if caller.tenant == tenant_of(request) else None


def is_authorized(request: Request, endpoint: Endpoint, scope: Scope | None) -> bool:
    """Tell whether a caller may make a call without a further look: for their own tenant, with the
    scope for all kinds. Notes for whom it acts.
    """
    if scope is None:
        return True
    caller = caller_of(request)
    if request.scope["query_string"] or scope not in caller.grants or caller.grants[scope]:
        return False
    if endpoint.access is not Access.TENANT or scope is Scope.WORK:
        return False
    request.scope["coatcheck.tenant"] = caller.tenant
    return True


async def authorize(request: Request, endpoint: Endpoint) -> None:
    """Raise unless the caller may make this call; note for whom it acts."""
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
        raise Forbidden(f"this is for keys of the tenant {OPERATOR!r} only")


async def _check_named_tenant(request: Request, endpoint: Endpoint, scope: Scope) -> None:
    caller, tenant = caller_of(request), tenant_of(request)
    if not is_name(tenant):
        raise HTTPException(400, f"this cannot be a tenant's name: {NAME_RULE}")
    if scope is Scope.WORK:
        return  # for keys of the operator only, and a lease has a holder (http/workers/handlers.py)
    if caller.is_operator:
        engine: Engine = request.app.state.engine
        await engine.authenticator.tenant(tenant)
    elif endpoint.for_lease_holder and caller.tenant == OPERATOR and caller.may(Scope.WORK):
        await _check_lease(request, caller)
    else:
        raise Forbidden("this key is for one tenant only")


async def _check_lease(request: Request, caller: Caller) -> None:
    """Raise NotFound unless the caller's key holds a lease on the job that the path names. Who does
    may read it: a worker runs the jobs of every caller.
    """
    job_id = request.path_params["job_id"]
    with suppress(NotFound):
        job = await named_job(request)
        if caller.key_id is not None and is_held_by(job, caller.key_id):
            request.scope["coatcheck.reader_of"] = job.id
            return
    raise NotFound(f"there is no job {job_id} that this key holds a lease on")


async def _check_endpoint_kind(request: Request, endpoint: Endpoint, scope: Scope) -> None:
    """Enforce the endpoint's kind rule on a key whose scope is for some kinds only."""
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
                raise Forbidden(f"this key has the scope {scope} for kinds that are not here")
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
    """Raise unless the caller has a scope for this kind; None is any kind."""
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
    """Return what a submit, of this kind where only the body says it, was let in by."""
    scope = request.scope
    return Admission(scope["coatcheck.epoch"], quotas_of(request), partial(_renew, request, kind))


async def _renew(request: Request, kind: str | None) -> Admission:
    await _readmit(request)
    if kind is not None:
        check_kind(request, Scope.WRITE, kind)
    return admission_of(request, kind)


async def _readmit(request: Request) -> None:
    engine: Engine = request.app.state.engine
    keeper, scope = engine.authenticator, request.scope
    note_readmitted(scope, await keeper.authenticate_fresh(scope["coatcheck.token"]), keeper.epoch)


def note_readmitted(scope: ASGIScope, caller: Caller, epoch: int | None) -> None:
    """Note that the caller of a request was admitted again, and under which epoch. A key's scopes
    never change, so what was authorized stays so; raises Unauthorized if it is another key's now.
    """
    earlier: Caller = scope["coatcheck.caller"]
    # An operator's key may do all that a server without keys lets everybody do.
    is_same = caller.key_id == earlier.key_id or (earlier.key_id is None and caller.is_operator)
    if not is_same:
        raise Unauthorized("keys were set up while this was under way: send it again, with one")
    scope["coatcheck.caller"] = caller
    scope["coatcheck.epoch"] = epoch
