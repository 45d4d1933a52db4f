"""Request bodies that are JSON objects, validated by pydantic."""

from __future__ import annotations

import copy
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request

from coatcheck.clock import from_rfc3339
from coatcheck.documents.fields import Timestamp
from coatcheck.documents.schema import documented_as, nullable, schema_of
from coatcheck.errors import InvalidPayload
from coatcheck.http.request.body import read_json
from coatcheck.model.kind import pointer


class RequestModel(BaseModel):
    """The base of request bodies: strict types, no unknown members."""

    model_config = ConfigDict(extra="forbid", strict=True)


_Model = TypeVar("_Model", bound=RequestModel)


async def read_model(request: Request, model: type[_Model]) -> _Model:
    """Read and validate a body; raise InvalidPayload with a pointer to each problem."""
    return validate_model(await read_json(request), model)


def validate_model(body: object, model: type[_Model], what: str = "") -> _Model:
    """Validate a parsed body; raise InvalidPayload with a pointer to each problem.

    `what` names the expected object in the message.
    """
    try:
        return _validate(body, model)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        problems = [(pointer(item["loc"]), item["msg"]) for item in found]
        listed = "; ".join(f"{where or '/'}: {detail}" for where, detail in problems[:3])
        message = f"this is not {what}: {listed}" if what else listed
        raise InvalidPayload(message, problems) from None


def _validate(body: object, model: type[_Model]) -> _Model:
    """Validate a body. 155.0 is an integer, as JSON Schema defines it."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        locations = [item["loc"] for item in error.errors() if _is_whole(item)]
        if not locations:
            raise
        whole = copy.deepcopy(body)
        for location in locations:
            _make_integer(whole, location)
        return model.model_validate(whole)


def _is_whole(item: ErrorDetails) -> bool:
    given = item["input"]
    return item["type"] == "int_type" and isinstance(given, float) and given.is_integer()


def _make_integer(body: Any, location: tuple[int | str, ...]) -> None:
    try:
        for name in location[:-1]:
            body = body[name]
        body[location[-1]] = int(body[location[-1]])
    except (LookupError, TypeError):
        return  # a location inside a union has names that are not in the body


def parse_time(value: object) -> object:
    """Parse an RFC 3339 time to milliseconds; raise ValueError, which pydantic reports."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError("write a time as RFC 3339, such as 2030-01-31T09:00:00Z")
    return from_rfc3339(value)


# A time or null, in milliseconds once it is validated.
OptionalTime = Annotated[
    int | None,
    BeforeValidator(parse_time),
    Field(json_schema_extra=documented_as(nullable(schema_of(Timestamp)))),
]
