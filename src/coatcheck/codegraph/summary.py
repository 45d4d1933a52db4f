"""The summary of one file: its definitions, and constraints on the values of its variables.

A variable (a positive int; 0 is none) is a name of the source, or the value of one expression. A
name that is assigned twice in straight-line code is two variables, so that `a = f; a = g; a()`
calls `g` alone; branches and loops join the variables of their ends. The reader resolves names: a
variable is the one that Python would find. The linker (points_to/linker.py) resolves imports and
finds the values.

A summary consists of tuples of ints and strings. The process that reads the file pickles it part by
part; the linker unpickles each part when it needs it.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import NamedTuple

Var = int
# The definition that runs a statement, an index of `definitions`: a module or a function. The body
# of a class is run by the definition around the class.
Caller = int
# A literal key of a container. None: any key.
Key = int | str | None
# An element of a container: (literal key, variable of any other key, variable of the element). If
# the key's variable is -1, the elements of the variable itself: `[*others]`.
Element = tuple[Key, Var, Var]
# A call: (result, callee, positional arguments, keyword arguments, caller, line). Positional
# arguments below 0 are `*` of the variable; a keyword None is `**`.
Call = tuple[Var, Var, tuple[Var, ...], tuple[tuple[str | None, Var], ...], Caller, int]


class DefinitionSummary(NamedTuple):
    """A module, class, function, method or lambda, as the graph shows it."""

    kind: str
    name: str
    qualified_name: str  # within the module; "" for the module itself
    line: int
    end_line: int
    signature: str | None
    parent: int  # the definition around it; -1 for the module


class Function(NamedTuple):
    """The parameters, the result and the effects of a function."""

    definition: int
    positional: tuple[tuple[str, Var], ...]
    rest: Var  # *args
    keyword_only: tuple[tuple[str, Var], ...]
    keywords: Var  # **kwargs
    defaults: tuple[tuple[str, Var], ...]
    result: Var
    returned_parameters: tuple[int, ...]  # positional parameters that it returns unchanged
    # (attribute, parameter) that it stores unchanged on its first parameter
    stored_parameters: tuple[tuple[str, str], ...]
    yields: Var  # 0 unless it is a generator
    is_async: bool
    owner: int  # an index of `classes`; -1 unless it is in a class


class Class(NamedTuple):
    """The bases, attributes and fields of a class."""

    definition: int
    bases: tuple[Var, ...]
    metaclass: Var
    attributes: tuple[tuple[str, Var], ...]
    fields: tuple[str, ...]  # annotated names, in order: the parameters of a dataclass


@dataclass(slots=True)
class ModuleSummary:
    """The summary of one file. Each list holds one kind of constraint, described above it."""

    variables: int = 0
    definitions: list[DefinitionSummary] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    exports: dict[str, Var] = field(default_factory=dict)  # the module's own names
    public: tuple[str, ...] | None = None  # __all__, if it is a literal
    package: str = ""  # declared package, if files of one package share their names

    # (from, to)
    copies: list[tuple[Var, Var]] = field(default_factory=list)
    # (variable, index of functions); (variable, index of classes)
    function_values: list[tuple[Var, int]] = field(default_factory=list)
    class_values: list[tuple[Var, int]] = field(default_factory=list)
    # variable, literal
    constants: list[tuple[Var, int | str]] = field(default_factory=list)
    # (variable, name of a builtin type)
    typed: list[tuple[Var, str]] = field(default_factory=list)
    # variable, type, elements
    containers: list[tuple[Var, str, tuple[Element, ...]]] = field(default_factory=list)
    # result, object, attribute, caller, line
    loads: list[tuple[Var, Var, str, Caller, int]] = field(default_factory=list)
    # object, attribute, value, caller, line
    stores: list[tuple[Var, str, Var, Caller, int]] = field(default_factory=list)
    # (result, container, key, variable of the key, caller, line)
    items: list[tuple[Var, Var, Key, Var, Caller, int]] = field(default_factory=list)
    # (container, key, variable of the key, value, caller, line)
    item_stores: list[tuple[Var, Key, Var, Var, Caller, int]] = field(default_factory=list)
    # (element, iterable, is `async for`, caller, line)
    iterations: list[tuple[Var, Var, bool, Caller, int]] = field(default_factory=list)
    # result, awaited, caller, line
    awaits: list[tuple[Var, Var, Caller, int]] = field(default_factory=list)
    # (target of `as`, manager, is `async with`, caller, line)
    contexts: list[tuple[Var, Var, bool, Caller, int]] = field(default_factory=list)
    # (result, operand, special method, arguments, caller, line)
    operators: list[tuple[Var, Var, str, tuple[Var, ...], Caller, int]] = field(
        default_factory=list
    )
    # result, decorator, decorated, caller, line
    decorations: list[tuple[Var, Var, Var, Caller, int]] = field(default_factory=list)
    # (result, index of classes, first parameter of the method)
    supers: list[tuple[Var, int, Var]] = field(default_factory=list)
    # (variable, variable of the class): an instance of it; a variable annotated with it
    instances: list[tuple[Var, Var]] = field(default_factory=list)
    annotations: list[tuple[Var, Var]] = field(default_factory=list)
    # exception, caller, line
    raises: list[tuple[Var, Caller, int]] = field(default_factory=list)
    # (variable or 0, dots, module, name or None for the module itself, caller, line)
    imports: list[tuple[Var, int, str, str | None, Caller, int]] = field(default_factory=list)
    # dots, module, line
    stars: list[tuple[int, str, int]] = field(default_factory=list)
    # (variable, name): neither local nor the module's own
    unknown_names: list[tuple[Var, str]] = field(default_factory=list)

    def pack(self) -> PackedSummary:
        """Return the summary as bytes, part by part."""
        return PackedSummary(
            {
                part: pickle.dumps([getattr(self, name) for name in names], -1)
                for part, names in _PARTS.items()
            }
        )

    def drop(self, part: str) -> None:
        """Empty a part."""
        for name in _PARTS[part]:
            setattr(self, name, [])


_PARTS = {
    "head": ("variables", "exports", "public", "package", "stars"),
    "definitions": ("definitions",),
    "made": ("functions", "classes"),
    "names": (
        "copies", "function_values", "class_values", "imports", "unknown_names", "loads",
    ),
    "items": ("items", "decorations"),
    # Only needed for calls.
    "actions": (
        "calls", "constants", "typed", "containers", "stores", "item_stores", "iterations",
        "awaits", "contexts", "operators", "supers", "instances", "annotations", "raises",
    ),
}  # fmt: skip


class PackedSummary:
    """A summary as bytes: a tenth of the memory of its objects."""

    __slots__ = ("_parts",)

    def __init__(self, parts: dict[str, bytes]) -> None:
        self._parts = parts

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(map(len, self._parts.values()))

    def load(self, *parts: str) -> ModuleSummary:
        """Return a summary that has these parts alone."""
        summary = ModuleSummary()
        for part in parts:
            loaded = pickle.loads(self._parts[part])  # noqa: S301 - our own
            for name, statements in zip(_PARTS[part], loaded, strict=True):
                setattr(summary, name, statements)
        return summary

    def drop(self, *parts: str) -> None:
        """Release parts that are not needed any more."""
        for part in parts:
            self._parts.pop(part, None)
