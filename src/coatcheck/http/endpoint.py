"""The declaration of one endpoint: routes, permission checks and OpenAPI are built from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.errors import ConfigurationError
from coatcheck.model.access import Scope


class Access(StrEnum):
    """The callers that may use an endpoint."""

    PUBLIC = "public"  # no key is needed
    AUTHENTICATED = "authenticated"  # any key
    TENANT = "tenant"  # acts for one tenant: the caller's, or the one that the operator names
    HANDLER_CHECKED = "handler checked"  # the handler decides which tenants the caller may see
    OPERATOR = "operator"  # about the whole server


class KindRule(Enum):
    """The kinds that a key's scope must cover, unless the endpoint is about one fixed kind."""

    JOB = "job"  # the kind of the job that the path names
    SCHEDULE = "schedule"  # the kind of the schedule that the path names
    REQUEST = "request"  # the handler reads it and calls check_kind, which releases the tenant
    DECLARED = "declared"  # any kind that this server has
    ALL = "all"  # every kind: a scope for some kinds only is not enough


Handler = Callable[[Request], Awaitable[Response]]
Schema = dict[str, Any]

JSON = "application/json"
ANY = "*/*"  # a response whose media type is that of its content


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a request header. The handler checks that a required one is there."""

    name: str
    description: str
    schema: Schema
    location: str = "query"
    repeated: bool = False
    required: bool = False


IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "A request repeated with the same key takes effect once.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    location="header",
)
TENANT = Parameter(
    "tenant",
    "Act for this tenant. For operator keys with `admin`, or with `jobs:work` for jobs they run.",
    {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$"},
)
TRACEPARENT = Parameter(
    "traceparent",
    "The trace context of the request (W3C Trace Context), stored on the job.",
    {"type": "string"},
    location="header",
)


@dataclass(frozen=True, slots=True)
class EndpointBody:
    """The request body of an endpoint: a schema for each media type."""

    description: str
    media: dict[str, Schema]
    required: bool = True


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """A successful response of an endpoint: a schema for each media type."""

    description: str
    media: dict[str, Schema]
    headers: tuple[str, ...] = ()
    links_to_job: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One HTTP method and path: its handler, permissions and description."""

    method: str
    path: str
    handler: Handler
    name: str  # operationId
    summary: str
    tag: str
    responses: dict[int, EndpointResponse]
    error_statuses: tuple[int, ...] = ()  # beside those that every endpoint has
    parameters: tuple[Parameter, ...] = ()
    body: EndpointBody | None = None
    description: str = ""
    hidden: bool = False  # not in OpenAPI: pages and their files
    needs: Scope | None = None  # None: decided by the method
    access: Access = Access.TENANT
    kind: str | KindRule | None = None  # which kinds the scope must cover; see check_declared
    is_capability: bool = False  # knowing the path is the permission: misses are rate-limited
    for_lease_holder: bool = False  # a worker key may read it for a job that it holds a lease on
    error_media: dict[str, Schema] | None = None  # None: a problem document
    forwards_query: bool = False  # the query is for an upstream and is not checked
    # Manages the job that the path names and shows nothing of its payload (auth/readers.py).
    for_operators: bool = False

    @property
    def scope(self) -> Scope | None:
        """The scope that a key needs; None if any key, or no key, is enough."""
        if self.access in (Access.PUBLIC, Access.AUTHENTICATED):
            return None
        if self.needs is not None:
            return self.needs
        return Scope.READ if self.method == "GET" else Scope.WRITE

    def check_declared(self) -> None:
        """Raise unless the endpoint declares which kinds a key's scope must cover.

        Every scope but `admin` can be limited to kinds, so an endpoint without a rule would be open
        to keys for other kinds.
        """
        if self.kind is None and self.scope not in (None, Scope.ADMIN):
            raise ConfigurationError(
                f"{self.method} {self.path} does not declare its permission: set `kind` to the "
                "kind it is about, or to a KindRule"
            )

    @property
    def names_a_job(self) -> bool:
        """Whether the path names a job."""
        return "{job_id}" in self.path

    @property
    def query_names(self) -> frozenset[str]:
        """The known query parameters."""
        named = frozenset(found.name for found in self.parameters if found.location == "query")
        return named | {TENANT.name} if self.takes_tenant else named

    @property
    def takes_tenant(self) -> bool:
        """Whether the operator may name a tenant in the query."""
        return self.access is Access.TENANT and not self.forwards_query

    @property
    def produces(self) -> frozenset[str]:
        """The media types of successful responses."""
        return frozenset(media for found in self.responses.values() for media in found.media)


def ref(name: str) -> Schema:
    """Return a reference to a schema component."""
    return {"$ref": f"#/components/schemas/{name}"}


def as_json(schema: Schema) -> dict[str, Schema]:
    """Return a media-type table with one entry: JSON of this schema."""
    return {JSON: schema}
