"""The types of members that several documents share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from coatcheck.model import artifact
from coatcheck.model.names import NAME_PATTERN, NAME_RULE
from coatcheck.model.state import State
from coatcheck.model.upload import SHA256_PATTERN

Count = Annotated[int, Field(ge=0)]
Timestamp = Annotated[
    str, WithJsonSchema({"type": "string", "format": "date-time"})
]  # RFC 3339, UTC, milliseconds
JobId = Annotated[
    str,
    WithJsonSchema(
        {"type": "string", "description": "A ULID, or the public id that a surface assigned."}
    ),
]
Name = Annotated[
    str,
    WithJsonSchema({"type": "string", "pattern": f"^{NAME_PATTERN}$", "description": NAME_RULE}),
]
FileName = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^{artifact.NAME_PATTERN}$",
            "description": artifact.NAME_RULE,
        }
    ),
]
KeyId = Annotated[str, WithJsonSchema({"type": "string", "pattern": "^[0-9a-f]{12}$"})]
Sha256 = Annotated[str, WithJsonSchema({"type": "string", "pattern": SHA256_PATTERN})]
StateName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(State)})]
JSONObject = Annotated[dict[str, Any], WithJsonSchema({"type": "object"})]
Links = dict[str, str]
