"""Bodies that are objects with known members: their shape is checked before anything is done."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from coatcheck.clock import from_rfc3339
from coatcheck.errors import InvalidPayload
from coatcheck.http.request.body import read_json
from coatcheck.model.kind import pointer


class RequestModel(BaseModel):
    """A body that has these members, of these very types, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Model = TypeVar("_Model", bound=RequestModel)


async def read_model(request: Request, model: type[_Model]) -> _Model:
    """Read a body; raises InvalidPayload with a pointer to each problem."""
    return validate_model(await read_json(request), model)


def validate_model(body: object, model: type[_Model], what: str = "") -> _Model:
    """Check a body that was read; raises InvalidPayload with a pointer to each problem. `what` it
    should be is said first.
    """
    try:
        return _validate(body, model)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(item["loc"]), item["msg"]) for item in found]
        words = "; ".join(f"{place or '/'}: {detail}" for place, detail in problems[:3])
        said = f"this is not {what}: {words}" if what else words
        raise InvalidPayload(said, problems) from None


def _validate(body: object, model: type[_Model]) -> _Model:
    """Validate a body in which 155.0 is as good an integer as 155, as JSON Schema has it."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        places = [item["loc"] for item in error.errors() if _is_whole(item)]
        if not places:
            raise
        whole = copy.deepcopy(body)
        for place in places:
            _make_integer(whole, place)
        return model.model_validate(whole)


def _is_whole(item: ErrorDetails) -> bool:
    given = item["input"]
    return item["type"] == "int_type" and isinstance(given, float) and given.is_integer()


def _make_integer(body: Any, place: tuple[int | str, ...]) -> None:
    try:
        for name in place[:-1]:
            body = body[name]
        body[place[-1]] = int(body[place[-1]])
    except (LookupError, TypeError):
        return  # a place inside a union has names that the body has not


def parse_time(value: object) -> object:
    """Read a time as milliseconds; raises ValueError, which pydantic turns into a problem."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("write a time as RFC 3339, such as 2030-01-31T09:00:00Z")
    return from_rfc3339(value)
