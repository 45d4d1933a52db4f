"""JSON Schema of documents and request bodies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict

Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_SUFFIX = "Document"


class Document(TypedDict):
    """A document with the members it declares and no others."""


Document.__pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[attr-defined]


class _Generator(GenerateJsonSchema):
    """Omits titles, which only repeat the names of members."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False


def component_name(document: type) -> str:
    """Return the name of a document in OpenAPI. Documents that share their name with a class of the
    model have the suffix `Document`.
    """
    return document.__name__.removesuffix(_SUFFIX)


def schema_of(document: Any, components: Collection[str] = ()) -> Schema:
    """Return the schema of a type. Nested documents are references if `components` has their names
    and are inlined otherwise.
    """
    schema: Schema = TypeAdapter(document).json_schema(
        ref_template=_REFERENCE + "{model}", schema_generator=_Generator
    )
    definitions = schema.pop("$defs", {})
    resolved: Schema = _resolve(schema, definitions, components)
    return resolved


def _resolve(node: Any, definitions: dict[str, Schema], components: Collection[str]) -> Any:
    if isinstance(node, list):
        return [_resolve(each, definitions, components) for each in node]
    if not isinstance(node, dict):
        return node
    found = {name: _resolve(each, definitions, components) for name, each in node.items()}
    reference = found.pop("$ref", None)
    if not isinstance(reference, str):
        return found
    name = reference.removeprefix(_REFERENCE)
    component = name.removesuffix(_SUFFIX)
    if component in components:
        return {"$ref": _REFERENCE + component, **found}
    return {**_resolve(definitions[name], definitions, components), **found}


def nullable(schema: Schema) -> Schema:
    """Return a schema that also accepts null."""
    return {"anyOf": [schema, {"type": "null"}]}


def documented_as(schema: Schema) -> Callable[[Schema], None]:
    """Return a `json_schema_extra` that replaces the generated schema of a field. It documents
    limits that the engine checks, so that its error texts apply instead of pydantic's.
    """

    def replace(generated: Schema) -> None:
        generated.clear()
        generated.update(schema)

    return replace


def omit_default(generated: Schema) -> None:
    """Remove the default from the generated schema of a field; a `json_schema_extra`."""
    generated.pop("default", None)
