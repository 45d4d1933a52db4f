"""What the shapes of the API are made of, as JSON Schema. Which there are: components.py."""

from __future__ import annotations

from coatcheck.http.endpoint import Schema
from coatcheck.http.request.models import RequestModel
from coatcheck.model import artifact
from coatcheck.model.names import NAME_PATTERN, NAME_RULE
from coatcheck.model.state import State

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
ID: Schema = {
    "type": "string",
    "description": "A ULID, or the public id that a surface gave the job.",
}
ANYTHING: Schema = {}
FILE_NAME: Schema = {
    "type": "string",
    "pattern": f"^{artifact.NAME_PATTERN}$",
    "description": artifact.NAME_RULE,
}
KEY_ID: Schema = {"type": "string", "pattern": "^[0-9a-f]{12}$"}
NAME: Schema = {"type": "string", "pattern": f"^{NAME_PATTERN}$", "description": NAME_RULE}


def maybe(schema: Schema) -> Schema:
    """Say that null is possible too."""
    return {"anyOf": [schema, {"type": "null"}]}


def listed(schema: Schema) -> Schema:
    """Say that there are several."""
    return {"type": "array", "items": schema}


def whole(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Describe an object that has these members and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


STATE: Schema = {"type": "string", "enum": list(State)}


def described(model: type[RequestModel], **limits: Schema) -> Schema:
    """Return the schema of a body, with what pydantic cannot tell of its members."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)  # components of their own
    schema["properties"] |= limits
    return schema
