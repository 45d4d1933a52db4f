"""Reading answers: what the server said, as a value or as the exception it stands for."""

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

# What this client relies on in a job.
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


def read_json(answer: ApiResponse) -> Any:
    """Return the JSON of a successful answer; raise what any other stands for."""
    if answer.status != 200:
        raise error_of(answer)
    try:
        return json.loads(answer.content)
    except ValueError:
        raise UnexpectedAnswer("the answer is not JSON") from None


def read_object(answer: ApiResponse, *members: str) -> dict[str, Any]:
    """Return the JSON object, with these members, of a successful answer; raise what any other
    stands for.
    """
    if not 200 <= answer.status < 300:
        raise error_of(answer)
    try:
        found = json.loads(answer.content)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found.keys() >= {*members}:
        raise UnexpectedAnswer(
            f"the answer ({answer.status}) is not what was asked for: "
            "what answers here is no Coatcheck server"
        )
    return found


def error_of(answer: ApiResponse) -> CoatcheckError:
    """Return the exception that an answer stands for."""
    problem = _problem(answer)
    detail = str(problem.get("detail") or _without_words(answer))
    if answer.status == 422 and problem.get("type") not in _BY_TYPE:
        return InvalidPayload(detail, _problems(problem))
    kind = _BY_TYPE.get(str(problem.get("type")))
    return (kind or _BY_STATUS.get(answer.status, UnexpectedAnswer))(detail)


def _problem(answer: ApiResponse) -> dict[str, Any]:
    try:
        said = json.loads(answer.content)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _problems(problem: dict[str, Any]) -> list[tuple[str, str]]:
    listed = problem.get("errors")
    if not isinstance(listed, list):
        return []
    return [
        (str(item.get("pointer", "")), str(item.get("detail", "")))
        for item in listed
        if isinstance(item, dict)
    ]


def _without_words(answer: ApiResponse) -> str:
    if 300 <= answer.status < 400 and "location" in answer.headers:
        return (
            f"the server redirects ({answer.status}) to {answer.headers['location']}; "
            "give the client the address it redirects to"
        )
    return f"the server answered {answer.status}, without saying why"
