"""Response parsing: JSON for a successful response, an exception for any other."""

from __future__ import annotations

import json
from typing import Any

from coatcheck.client.wire import ApiResponse
from coatcheck.errors import (
    CoatcheckError,
    Conflict,
    Gone,
    InvalidInput,
    InvalidPayload,
    KeyReused,
    NotFound,
    Overloaded,
    StoreUnavailable,
    Unauthorized,
    UnexpectedAnswer,
    UnknownKind,
    Unreachable,
)

# The members of a job that this client relies on.
JOB_MEMBERS = ("id", "kind", "state", "finished_at")

_BY_TYPE: dict[str, type[CoatcheckError]] = {
    "urn:coatcheck:unknown-kind": UnknownKind,
    "urn:coatcheck:idempotency-key-reused": KeyReused,
}
_BY_STATUS: dict[int, type[CoatcheckError]] = {
    400: InvalidInput,
    401: Unauthorized,
    403: Unauthorized,
    404: NotFound,
    408: Unreachable,
    409: Conflict,
    410: Gone,
    413: InvalidInput,
    415: InvalidInput,
    429: Overloaded,
    502: Unreachable,
    503: StoreUnavailable,
    504: Unreachable,
}


def read_json(response: ApiResponse) -> Any:
    """Return the JSON of a 200 response; raise the exception for any other."""
    if response.status != 200:
        raise error_of(response)
    try:
        return json.loads(response.content)
    except ValueError:
        raise UnexpectedAnswer("the response is not JSON") from None


def read_object(response: ApiResponse, *members: str) -> dict[str, Any]:
    """Return the JSON object of a 2xx response, which must have these members.

    Raises the exception that any other response stands for.
    """
    if not 200 <= response.status < 300:
        raise error_of(response)
    try:
        found = json.loads(response.content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= {*members}:
        raise UnexpectedAnswer(
            f"the response ({response.status}) is not the expected JSON: "
            "there is no Coatcheck server at this address"
        )
    return found


def error_of(response: ApiResponse) -> CoatcheckError:
    """Return the exception that an error response stands for."""
    problem = _problem(response)
    detail = str(problem.get("detail") or _default_detail(response))
    if response.status == 422 and problem.get("type") not in _BY_TYPE:
        return InvalidPayload(detail, _problems(problem))
    kind = _BY_TYPE.get(str(problem.get("type")))
    return (kind or _BY_STATUS.get(response.status, UnexpectedAnswer))(detail)


def _problem(response: ApiResponse) -> dict[str, Any]:
    try:
        problem = json.loads(response.content)
    except ValueError:
        return {}
    return problem if isinstance(problem, dict) else {}


def _problems(problem: dict[str, Any]) -> list[tuple[str, str]]:
    listed = problem.get("errors")
    if not isinstance(listed, list):
        return []
    return [
        (str(item.get("pointer", "")), str(item.get("detail", "")))
        for item in listed
        if isinstance(item, dict)
    ]


def _default_detail(response: ApiResponse) -> str:
    if 300 <= response.status < 400 and "location" in response.headers:
        return (
            f"the server redirects ({response.status}) to {response.headers['location']}; "
            "use that address instead"
        )
    return f"the server answered {response.status} without an explanation"
