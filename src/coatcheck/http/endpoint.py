"""What the API says of each of its calls, once: routes, checks and OpenAPI are made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

Handler = Callable[[Request], Awaitable[Response]]
Schema = dict[str, Any]

JSON = "application/json"
ANY = "*/*"  # of an answer: it is whatever it was made as


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a request header; a header is never required."""

    name: str
    description: str
    schema: Schema
    place: str = "query"
    repeated: bool = False


IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "Repeat a request under the same key, and it still happens once.",
    {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]([ -~]*[!-~])?$"},
    place="header",
)
TRACEPARENT = Parameter(
    "traceparent",
    "The trace this belongs to (W3C Trace Context); kept with the job.",
    {"type": "string"},
    place="header",
)


@dataclass(frozen=True, slots=True)
class Body:
    """What a call takes. `schema` names a component, or one for each media type."""

    description: str
    media: dict[str, Schema]
    required: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
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
    answers: dict[int, Answer]
    refusals: tuple[int, ...] = ()  # beside those that every call has
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    description: str = ""
    hidden: bool = False  # not part of the documented API: pages and their files

    @property
    def query_names(self) -> frozenset[str]:
        """The query parameters that mean something here."""
        return frozenset(found.name for found in self.parameters if found.place == "query")

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
