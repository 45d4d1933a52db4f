"""The function of a step: its name, and how its result is serialized.

The handler always gets the serialized result, deserialized again, even when the function has just
run. So the first run and every replay return the same value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError


class FunctionShape(NamedTuple):
    """A function's properties that are needed before it is called."""

    name: str
    is_async: bool  # its return value is awaited
    result: TypeAdapter[Any]


class StepFunction:
    """The function of a step, and its arguments."""

    __slots__ = ("_type", "arguments", "function", "is_async", "name")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self.function = function
        self.arguments = arguments
        self.name, self.is_async, self._type = _shape_of(function)

    def write(self, value: Any) -> str:
        """Serialize the return value as JSON; raise pydantic's error if that is impossible."""
        return self._type.serializer.to_json(value, warnings="error").decode()

    def read(self, text: str) -> Any:
        """Deserialize a return value from JSON; raise pydantic's error if it does not match the
        type.
        """
        return self._type.validator.validate_json(text)


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_types: WeakKeyDictionary[Callable[..., Any], TypeAdapter[Any]] = WeakKeyDictionary()
_shapes: WeakKeyDictionary[Callable[..., Any], FunctionShape] = WeakKeyDictionary()


def _shape_of(function: Callable[..., Any]) -> FunctionShape:
    # Other callables, such as bound methods, are often created for each call.
    if type(function) is not FunctionType:
        return _look_at(function)
    shape = _shapes.get(function)
    if shape is None:
        shape = _shapes[function] = _look_at(function)
    return shape


def _look_at(function: Callable[..., Any]) -> FunctionShape:
    if not callable(function):
        raise TypeError(f"ctx.step takes a function, not {function!r}; pass its arguments after it")
    plain = function
    while isinstance(plain, partial):
        plain = plain.func
    name = getattr(plain, "__name__", type(plain).__name__)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - not whether, but how
    )
    return FunctionShape(name, is_async, _result_type(getattr(plain, "__func__", plain)))


def _result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        found = _types.get(function)
        if found is None:
            wanted = get_type_hints(function, include_extras=True).get("return", Any)
            found = _ANYTHING if wanted is Any else TypeAdapter(wanted)
            _types[function] = found
    except (NameError, TypeError, PydanticSchemaGenerationError, PydanticUserError):
        return _ANYTHING  # not a type that pydantic can read: use plain JSON
    return found
