"""Inspect handlers: their types, where they run, and how another process imports them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from coatcheck.errors import ConfigurationError
from coatcheck.model.kind import Isolation, Kind

_ISOLATIONS = "async, thread or process"


class HandlerReference(NamedTuple):
    """The module and name by which another process imports a handler."""

    module: str
    name: str


def is_async(handler: Callable[..., Any]) -> bool:
    """Tell whether a handler is an `async def`."""
    return inspect.iscoroutinefunction(handler)


def isolation_of(name: str, handler: Callable[..., Any], wanted: str | None) -> Isolation:
    """Return where a kind's handler runs; raises ConfigurationError if it cannot run there."""
    natural: Isolation = "async" if is_async(handler) else "thread"
    if wanted in (None, natural):
        return natural
    if wanted == "process":
        _check_importable(name, handler)
        return "process"
    if wanted in ("async", "thread"):
        shape = "async def" if natural == "async" else "def"
        raise ConfigurationError(
            f"kind {name!r} is {shape!r}, which runs with isolation={natural!r}, not {wanted!r}"
        )
    raise ConfigurationError(f"kind {name!r}: isolation is {_ISOLATIONS}, not {wanted!r}")


def signature_of(
    name: str, handler: Callable[..., Any]
) -> tuple[bool, TypeAdapter[Any], TypeAdapter[Any]]:
    """Return whether a handler takes an input, its input type and its result type."""
    parameters = [
        parameter
        for parameter in inspect.signature(handler).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(parameters) not in (1, 2):
        raise ConfigurationError(
            f"kind {name!r}: a handler takes (ctx, input) or (ctx), not {len(parameters)} arguments"
        )
    takes_input = len(parameters) == 2
    try:
        hints = get_type_hints(handler, include_extras=True)
        input_type: Any = hints.get(parameters[1].name, Any) if takes_input else None
        adapters: tuple[TypeAdapter[Any], TypeAdapter[Any]] = (
            TypeAdapter(input_type),
            TypeAdapter(hints.get("return", Any)),
        )
    except (NameError, PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigurationError(
            f"kind {name!r}: its annotations cannot be read as types: {error}"
        ) from error
    return takes_input, *adapters


def reference_of(kind: Kind) -> HandlerReference:
    """Return the reference to a kind's handler; raises ConfigurationError if it has none.

    This cannot be checked at declaration: a decorator runs before its function is bound to a name.
    """
    handler = kind.handler
    _check_importable(kind.name, handler)
    reference = HandlerReference(handler.__module__, handler.__qualname__)
    if reference.module == "__main__":
        raise ConfigurationError(
            f"kind {kind.name!r} has isolation='process', but its handler is in the script that "
            "was started, which a new process cannot import; move it to a module of its own"
        )
    if find(reference, sys.modules.get(reference.module)) is not handler:
        raise ConfigurationError(
            f"kind {kind.name!r} has isolation='process', but a new process would not find its "
            f"handler as {reference.name!r} in {reference.module!r}: something else has that name, "
            "such as another decorator; make @app.job the outermost one"
        )
    return reference


def find(reference: HandlerReference, module: object) -> object:
    """Return the object that a reference names in its module, or None."""
    found = module
    for part in reference.name.split("."):
        found = getattr(found, part, None)
    return found


def _check_importable(name: str, handler: Callable[..., Any]) -> None:
    qualified = getattr(handler, "__qualname__", "")
    if not qualified or "<" in qualified:  # <locals>, <lambda>
        what = "a lambda" if qualified.endswith("<lambda>") else "defined inside a function"
        if not qualified:
            what = "not a function"
        raise ConfigurationError(
            f"kind {name!r} has isolation='process', but its handler is {what}, which a new "
            "process cannot import; define it with def at the top of a module"
        )
