"""Input fields that only this server sets.

A surface may store more in the input of its jobs than a client may set, such as the owner of a
relayed call or its encrypted credentials. Such a field is declared as `Internal[...]`. The field is
not part of the kind's schema, and a submission that sets it is rejected unless a surface of this
server has built the input (`Submission.trusted`). A worker reads a stored input without this check.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ValidationInfo
from pydantic.json_schema import SkipJsonSchema

# Validation context key: a client has written the input.
BY_CLIENT = "coatcheck_by_client"

T = TypeVar("T")


def _reject_from_client(value: Any, info: ValidationInfo) -> Any:
    context: Any = info.context
    if value and isinstance(context, dict) and context.get(BY_CLIENT):
        raise ValueError("this field is set by the server; leave it out")
    return value


Internal = Annotated[T, BeforeValidator(_reject_from_client), SkipJsonSchema()]
