"""What the API says of each of its calls, once: routes, checks and OpenAPI are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.errors import ConfigurationError
from coatcheck.model.access import Scope


class Audience(StrEnum):
    """Whom a call is for."""

    EVERYBODY = "everybody"
    ANY_KEY = "any key"
    TENANT = "tenant"  # it acts for one tenant: the caller's, or whose the operator names
    KEY_OWNER = "key owner"  # it finds out itself whom it acts for
    OPERATOR = "operator"  # it is about the whole server


class KindRule(Enum):
    """Which kinds a key's scope must cover for a call, if the call is not about one fixed kind."""

    JOB = "job"  # the kind of the job that the path names
    SCHEDULE = "schedule"  # the kind of the schedule that the path names
    REQUEST = "request"  # the handler reads it and calls check_kind, which releases the tenant
    DECLARED = "declared"  # any kind that this server has
    ALL = "all"  # every kind: a scope for some kinds only is not enough


Handler = Callable[[Request], Awaitable[Response]]
Schema = dict[str, Any]

JSON = "application/json"
ANY = "*/*"  # of an answer: it is whatever it was made as


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a request header. A handler refuses what lacks a required one."""

    name: str
    description: str
    schema: Schema
    place: str = "query"
    repeated: bool = False
    required: bool = False


IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "Repeat a request under the same key, and it still happens once.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    place="header",
)
TENANT = Parameter(
    "tenant",
    "Whose: for keys of the operator, with `admin`, or with `jobs:work` for jobs that they run.",
    {"type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$"},
)
TRACEPARENT = Parameter(
    "traceparent",
    "The trace this belongs to (W3C Trace Context); kept with the job.",
    {"type": "string"},
    place="header",
)


@dataclass(frozen=True, slots=True)
class EndpointBody:
    """What a call takes. `schema` names a component, or one for each media type."""

    description: str
    media: dict[str, Schema]
    required: bool = True


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """One way a call can go well."""

    description: str
    media: dict[str, Schema]
    headers: tuple[str, ...] = ()
    links_to_job: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One call: what it is, who answers it, what it takes, how it can go."""

    method: str
    path: str
    handler: Handler
    name: str  # operationId
    summary: str
    tag: str
    answers: dict[int, EndpointResponse]
    refusals: tuple[int, ...] = ()  # beside those that every call has
    parameters: tuple[Parameter, ...] = ()
    body: EndpointBody | None = None
    description: str = ""
    hidden: bool = False  # not part of the documented API: pages and their files
    needs: Scope | None = None  # None: by its method
    audience: Audience = Audience.TENANT
    kind: str | KindRule | None = None  # which kinds the scope must cover; see check_declared
    is_capability: bool = False  # whoever knows the path may call it: misses are rate-limited
    for_lease_holder: bool = False  # a worker key may read it of another tenant's job it runs
    refused_as: dict[str, Schema] | None = None  # None: as a problem
    hands_on_query: bool = False  # the query is for somebody else: nothing of it is looked at
    # It manages the job that its path names and shows nothing of its payload (readers.py).
    for_operators: bool = False

    @property
    def scope(self) -> Scope | None:
        """What a key needs for this call; None where any key will do, or none is asked for."""
        if self.audience in (Audience.EVERYBODY, Audience.ANY_KEY):
            return None
        if self.needs is not None:
            return self.needs
        return Scope.READ if self.method == "GET" else Scope.WRITE

    def check_declared(self) -> None:
        """Raise unless the call says which kinds a key's scope must cover. Every scope but `admin`
        can be limited to kinds, so a call without a rule would be open to keys for other kinds.
        """
        if self.kind is None and self.scope not in (None, Scope.ADMIN):
            raise ConfigurationError(
                f"{self.method} {self.path} does not declare its permission: set `kind` to the "
                "kind it is about, or to a KindRule"
            )

    @property
    def names_a_job(self) -> bool:
        """Whether its path names a job."""
        return "{job_id}" in self.path

    @property
    def query_names(self) -> frozenset[str]:
        """The query parameters that mean something here."""
        named = frozenset(found.name for found in self.parameters if found.place == "query")
        return named | {TENANT.name} if self.takes_tenant else named

    @property
    def takes_tenant(self) -> bool:
        """Whether the operator may name a tenant in the query."""
        return self.audience is Audience.TENANT and not self.hands_on_query

    @property
    def produces(self) -> frozenset[str]:
        """The media types of its answers."""
        return frozenset(media for answer in self.answers.values() for media in answer.media)


def ref(name: str) -> Schema:
    """Name a component of the schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def as_json(schema: Schema) -> dict[str, Schema]:
    """Say that something is JSON of this schema."""
    return {JSON: schema}
