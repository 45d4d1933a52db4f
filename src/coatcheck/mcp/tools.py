"""Tool definitions: names and arguments of kinds as tools.

A tool has named arguments; a kind's input is any JSON. If the input is an object, its members are
the arguments. Otherwise the tool has one argument, `input`.
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
    """The arguments that name a job."""

    model_config = ConfigDict(extra="forbid")

    job_id: str = Field(description="The job id that a tool call returned.")


class ResultArguments(JobArguments):
    """The arguments of `job_result`."""

    wait_s: float = Field(
        0, ge=0, le=MAX_WAIT_S, description="Wait up to this many seconds for the job to finish."
    )


class JobTool(NamedTuple):
    """A tool that works on a submitted job."""

    name: str
    scope: Scope
    arguments: type[JobArguments]
    description: str
    hints: types.ToolAnnotations

    def definition(self) -> types.Tool:
        """Return the tool's definition for `tools/list`."""
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
    "Get the state and progress of a submitted job.",
    types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
RESULT = JobTool(
    "job_result",
    Scope.READ,
    ResultArguments,
    "Get the result of a submitted job. Set wait_s to wait for it.",
    types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
)
CANCEL = JobTool(
    "job_cancel",
    Scope.CANCEL,
    JobArguments,
    "Cancel a submitted job. A finished job does not change.",
    types.ToolAnnotations(destructive_hint=True, idempotent_hint=True, open_world_hint=False),
)
JOB_TOOLS = {tool.name: tool for tool in (STATUS, RESULT, CANCEL)}


class KindTool(NamedTuple):
    """A kind as a tool."""

    name: str
    kind: Kind
    schema: dict[str, Any]
    is_wrapped: bool  # the kind's input is the argument `input`

    def definition(self) -> types.Tool:
        """Return the tool's definition for `tools/list`."""
        description = inspect.getdoc(self.kind.handler) or f"Submit a job of kind {self.kind.name}."
        return types.Tool(
            name=self.name, title=self.kind.name, description=description, input_schema=self.schema
        )

    def input_of(self, arguments: Mapping[str, Any]) -> Any:
        """Return the kind's input; the kind validates it."""
        if not self.is_wrapped:
            return None if not arguments and not self.kind.takes_input else dict(arguments)
        unknown = sorted(arguments.keys() - {INPUT})
        if unknown:
            problems = [(f"/{name}", "unknown argument") for name in unknown]
            raise InvalidPayload(f"{self.name} has one argument, {INPUT!r}", problems)
        return arguments.get(INPUT)


def tools_of(kinds: Mapping[str, Kind]) -> dict[str, KindTool]:
    """Return a tool for each public kind, by tool name."""
    found: dict[str, KindTool] = {}
    for kind in (kinds[name] for name in sorted(kinds)):
        if kind.internal:
            continue
        name = _free_name(kind.name, (*JOB_TOOLS, *found))
        schema, is_wrapped = _arguments(kind)
        found[name] = KindTool(name, kind, schema, is_wrapped)
    return found


def _free_name(kind: str, taken: Iterable[str]) -> str:
    """Return a unique tool name; tool names cannot contain colons."""
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
        "required": [] if _accepts_null(kind) else [INPUT],
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


def _accepts_null(kind: Kind) -> bool:
    try:
        kind.check_input("null")
    except InvalidPayload:
        return False
    return True
