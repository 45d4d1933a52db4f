"""The function that a step runs: its name, and how its result is written and read.

What a handler gets from a step is always what was written, read back, also when the body has just
run: so it gets the same the first time and whenever it comes back.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError


class Body:
    """A function and its arguments."""

    __slots__ = ("_type", "arguments", "function", "name")

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        if not callable(function):
            raise TypeError(f"a step runs a function, not {function!r}; pass its arguments apart")
        plain = function
        while isinstance(plain, partial):
            plain = plain.func
        self.function = function
        self.arguments = arguments
        self.name = getattr(plain, "__name__", type(plain).__name__)
        self._type = _result_type(getattr(plain, "__func__", plain))

    @property
    def is_async(self) -> bool:
        """Whether calling it returns something to await."""
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(
            getattr(self.function, "__call__", None)  # noqa: B004 - not whether, but how
        )

    def write(self, value: Any) -> str:
        """Turn what it returned into a JSON text; raises pydantic's error if it cannot."""
        return self._type.dump_json(value, warnings="error").decode()

    def read(self, text: str) -> Any:
        """Turn a JSON text into what it returned; raises pydantic's error if it is not that."""
        return self._type.validate_json(text)


_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_types: WeakKeyDictionary[Callable[..., Any], TypeAdapter[Any]] = WeakKeyDictionary()


def _result_type(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        found = _types.get(function)
        if found is None:
            wanted = get_type_hints(function, include_extras=True).get("return", Any)
            found = _ANYTHING if wanted is Any else TypeAdapter(wanted)
            _types[function] = found
    except (NameError, TypeError, PydanticSchemaGenerationError, PydanticUserError):
        return _ANYTHING  # not a type that can be read: plain JSON it is
    return found
