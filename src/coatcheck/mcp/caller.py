"""Who asks, and what they may do: for one message of the protocol."""

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
from coatcheck.mcp.names import IDEMPOTENCY_KEY, PATH
from coatcheck.model.access import Scope
from coatcheck.model.job import Job

Context = ServerRequestContext[Any, Any]


class McpCaller(NamedTuple):
    """A message, with the request that brought it."""

    context: Context
    request: Request

    @property
    def engine(self) -> Engine:
        """The engine behind the door."""
        engine: Engine = self.request.app.state.engine
        return engine

    @property
    def caller(self) -> Caller:
        """Who asks."""
        return caller_of(self.request)

    def may(self, scope: Scope, kind: str) -> bool:
        """Tell whether the caller has a scope for this kind."""
        kinds = self.caller.kinds_for(scope)
        return self.caller.may(scope) and (kinds is None or kind in kinds)

    def may_for_some(self, scope: Scope) -> bool:
        """Tell whether the caller has a scope for any kind at all."""
        return self.caller.may(scope)

    @property
    def wants_progress(self) -> bool:
        """Whether the client has named a token to be told of progress under."""
        meta: dict[str, Any] = dict(self.context.meta or {})
        return meta.get("progress_token", meta.get("progressToken")) is not None

    def once(self, kind: str, value: Any) -> IdempotencyKey | None:
        """Return the key that the call is to happen once under; None where it has none."""
        key = dict(self.context.meta or {}).get(IDEMPOTENCY_KEY)
        if key is None:
            return None
        if not isinstance(key, str) or not is_key(key):
            raise MCPError(INVALID_PARAMS, f"_meta[{IDEMPOTENCY_KEY!r}] is {KEY_RULE}")
        return make_idempotency_key(key, "POST", PATH, {"kind": kind, "input": value})

    async def find(self, job_id: str, scope: Scope) -> Job:
        """Read a job of the caller's tenant; raises NotFound, Gone, Forbidden."""
        job = await self.engine.get(job_id, tenant_of(self.request))
        check_reader(self.request, job, job_id)
        self.caller.check_kind(scope, job.kind)
        return job


def asked_by(context: Context) -> McpCaller:
    """Return a message with its request."""
    request = context.request
    assert isinstance(request, Request), "only HTTP leads here"
    return McpCaller(context, request)
