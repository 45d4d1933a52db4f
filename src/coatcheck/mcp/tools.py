"""Kinds as tools: their names, and what they take.

A tool takes named arguments. A kind takes any JSON: where that is an object, its members are the
arguments; where it is anything else, it is the one argument `input`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import mcp_types as types
from pydantic import BaseModel, ConfigDict, Field

from coatcheck.errors import InvalidPayload
from coatcheck.model.access import Scope
from coatcheck.model.kind import Kind

INPUT = "input"
MAX_WAIT_S = 60


class JobArguments(BaseModel):
    """Which job."""

    model_config = ConfigDict(extra="forbid")

    job_id: str = Field(description="The id that the call of a tool answered with.")


class ResultArguments(JobArguments):
    """Which job, and how long to wait for its end."""

    wait_s: float = Field(
        0, ge=0, le=MAX_WAIT_S, description="Wait up to so many seconds for it to end."
    )


class JobTool(NamedTuple):
    """A tool to come back to a job with."""

    name: str
    scope: Scope
    arguments: type[JobArguments]
    description: str
    hints: types.ToolAnnotations

    def listed(self) -> types.Tool:
        """Return the tool as it is listed."""
        schema = self.arguments.model_json_schema()
        schema.pop("title", None)
        schema.pop("description", None)
        return types.Tool(
            name=self.name,
            description=self.description,
            input_schema=schema,
            annotations=self.hints,
        )


STATUS = JobTool(
    "job_status",
    Scope.READ,
    JobArguments,
    "Look at a job that was handed in: its state and how far it has come.",
    types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
RESULT = JobTool(
    "job_result",
    Scope.READ,
    ResultArguments,
    "Get the result of a job that was handed in, waiting for it if asked to.",
    types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
CANCEL = JobTool(
    "job_cancel",
    Scope.CANCEL,
    JobArguments,
    "Stop a job that was handed in. One that has ended stays as it is.",
    types.ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False),
)
JOB_TOOLS = {tool.name: tool for tool in (STATUS, RESULT, CANCEL)}


class KindTool(NamedTuple):
    """A kind as a tool."""

    name: str
    kind: Kind
    schema: dict[str, Any]
    wraps: bool  # what the kind takes is the one argument `input`

    def listed(self) -> types.Tool:
        """Return the tool as it is listed."""
        said = inspect.getdoc(self.kind.handler) or f"Hand in a job of the kind {self.kind.name}."
        return types.Tool(
            name=self.name, title=self.kind.name, description=said, input_schema=self.schema
        )

    def input_of(self, arguments: Mapping[str, Any]) -> Any:
        """Return what the kind is given; whether that fits, the kind itself says."""
        if not self.wraps:
            return None if not arguments and not self.kind.takes_input else dict(arguments)
        unknown = sorted(arguments.keys() - {INPUT})
        if unknown:
            said = f"{self.name} takes one argument, {INPUT!r}"
            raise InvalidPayload(
                said, [(f"/{name}", "there is no such argument") for name in unknown]
            )
        return arguments.get(INPUT)


def tools_of(kinds: Mapping[str, Kind]) -> dict[str, KindTool]:
    """Make a tool of each kind that is not internal, by the tool's name."""
    found: dict[str, KindTool] = {}
    for kind in (kinds[name] for name in sorted(kinds)):
        if kind.internal:
            continue
        name = _free_name(kind.name, (*JOB_TOOLS, *found))
        schema, wraps = _arguments(kind)
        found[name] = KindTool(name, kind, schema, wraps)
    return found


def _free_name(kind: str, taken: Iterable[str]) -> str:
    """Write a kind's name without colons, which a tool's has not; no two get the same."""
    plain = kind.replace(":", ".")
    name, number, others = plain, 1, set(taken)
    while name in others:
        number += 1
        name = f"{plain}_{number}"
    return name


def _arguments(kind: Kind) -> tuple[dict[str, Any], bool]:
    if not kind.takes_input:
        return {"type": "object", "properties": {}, "additionalProperties": False}, False
    schema = kind.input_schema()
    if _is_object(schema):
        return {"type": "object", **schema}, False
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Any] = {
        "type": "object",
        "properties": {INPUT: schema},
        "required": [] if _takes_nothing(kind) else [INPUT],
        "additionalProperties": False,
    }
    if definitions is not None:
        wrapped["$defs"] = definitions
    return wrapped, True


def _is_object(schema: Mapping[str, Any]) -> bool:
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        schema = schema.get("$defs", {}).get(name, {})
    return schema.get("type") == "object"


def _takes_nothing(kind: Kind) -> bool:
    try:
        kind.check_input("null")
    except InvalidPayload:
        return False
    return True
