"""McpRequest: one protocol message, its HTTP request and its caller."""

from __future__ import annotations

from typing import Any, NamedTuple

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from starlette.requests import Request

from coatcheck.engine.auth import Caller
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.idempotency import IdempotencyKey
from coatcheck.http.auth.caller import caller_of, tenant_of
from coatcheck.http.auth.readers import check_reader
from coatcheck.http.request.idempotency import KEY_RULE, is_key, make_idempotency_key
from coatcheck.mcp.constants import IDEMPOTENCY_KEY, PATH
from coatcheck.model.access import Scope
from coatcheck.model.job import Job

Context = ServerRequestContext[Any, Any]


class McpRequest(NamedTuple):
    """A protocol message and the HTTP request that carried it."""

    context: Context
    http: Request

    @property
    def engine(self) -> Engine:
        """The server's engine."""
        engine: Engine = self.http.app.state.engine
        return engine

    @property
    def caller(self) -> Caller:
        """The authenticated caller."""
        return caller_of(self.http)

    def may(self, scope: Scope, kind: str) -> bool:
        """Tell whether the caller has a scope for this kind."""
        kinds = self.caller.kinds_for(scope)
        return self.caller.may(scope) and (kinds is None or kind in kinds)

    def has_scope(self, scope: Scope) -> bool:
        """Tell whether the caller has a scope for at least one kind."""
        return self.caller.may(scope)

    @property
    def wants_progress(self) -> bool:
        """Whether the client sent a progress token."""
        meta: dict[str, Any] = dict(self.context.meta or {})
        return meta.get("progress_token", meta.get("progressToken")) is not None

    def idempotency_key(self, kind: str, value: Any) -> IdempotencyKey | None:
        """Return the idempotency key of the call, if it has one."""
        key = dict(self.context.meta or {}).get(IDEMPOTENCY_KEY)
        if key is None:
            return None
        if not isinstance(key, str) or not is_key(key):
            raise MCPError(INVALID_PARAMS, f"_meta[{IDEMPOTENCY_KEY!r}] must be {KEY_RULE}")
        return make_idempotency_key(key, "POST", PATH, {"kind": kind, "input": value})

    async def find(self, job_id: str, scope: Scope) -> Job:
        """Read a job of the caller's tenant; raise NotFound, Gone or Forbidden."""
        job = await self.engine.get(job_id, tenant_of(self.http))
        check_reader(self.http, job, job_id)
        self.caller.check_kind(scope, job.kind)
        return job


def mcp_request(context: Context) -> McpRequest:
    """Return a message with its HTTP request."""
    request = context.request
    assert isinstance(request, Request), "only HTTP requests reach this"
    return McpRequest(context, request)
