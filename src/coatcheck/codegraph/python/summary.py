"""What is kept of one Python file once its tree is dropped: definitions, and how values flow.

A file becomes *places* and *statements about places*. A place (a positive int, 0 for "nothing of
interest") is a variable, or the value of one expression. Where a variable is assigned twice in
straight code, each assignment is a place of its own, so that `a = f; a = g; a()` calls `g` alone;
branches and loops join the places of their ends. Names are looked up while the file is read: a
place stands for the variable that Python would find. What is left to the link (linking.py) are the
modules, and what the values are.

All of it is tuples of ints and strings: it is pickled by the process that read the file, and lies
on a shelf so (disk/shelf.py) until the link comes to it.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.codegraph.disk.shelf import Shelf

Place = int
# Who runs a statement: an index of `definitions`, a module or a function. The body of a class is
# run by what the class stands in.
Runner = int
# A key that is written out, for the elements of containers. None: any of them.
Key = int | str | None
# What is in a container: (key, place of a key that is not written out, place of the element).
# The elements of the place itself, where the place of the key is -1: `[*others]`.
Element = tuple[Key, Place, Place]
# A call: (result, callee, positional arguments, keyword arguments, runner, line). Positional
# arguments below 0 are `*` of the place; a keyword None is `**`.
Call = tuple[Place, Place, tuple[Place, ...], tuple[tuple[str | None, Place], ...], Runner, int]


class DefinitionSummary(NamedTuple):
    """A module, class, function, method or lambda, as the graph shows it."""

    kind: str
    name: str
    qualified_name: str  # within the module; "" for the module itself
    line: int
    end_line: int
    signature: str | None
    parent: int  # the definition it stands in; -1 for the module


class Function(NamedTuple):
    """How a function takes arguments and what becomes of them."""

    definition: int
    positional: tuple[tuple[str, Place], ...]
    rest: Place  # *args
    keyword_only: tuple[tuple[str, Place], ...]
    keywords: Place  # **kwargs
    defaults: tuple[tuple[str, Place], ...]
    result: Place
    passes: tuple[int, ...]  # the positional parameters that it returns as they came
    # (attribute, parameter): what it stores in attributes of its first parameter as it came
    keeps: tuple[tuple[str, str], ...]
    yields: Place  # 0 unless it is a generator
    is_async: bool
    owner: int  # an index of `classes`; -1 unless it stands in a class


class Class(NamedTuple):
    """What a class is made of."""

    definition: int
    bases: tuple[Place, ...]
    metaclass: Place
    attributes: tuple[tuple[str, Place], ...]
    fields: tuple[str, ...]  # annotated names, in order: the parameters of a dataclass


@dataclass(slots=True)
class PythonSummary:
    """One file. Each list holds one sort of statement; the fields are named in its comment."""

    places: int = 0
    definitions: list[DefinitionSummary] = field(default_factory=list)
    functions: list[Function] = field(default_factory=list)
    classes: list[Class] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    exports: dict[str, Place] = field(default_factory=dict)  # the module's own names
    public: tuple[str, ...] | None = None  # __all__, where it is written out
    package: str = ""  # as the file says, where files of one package see each other's names

    # (from, to)
    copies: list[tuple[Place, Place]] = field(default_factory=list)
    # (place, index of functions); (place, index of classes)
    function_values: list[tuple[Place, int]] = field(default_factory=list)
    class_values: list[tuple[Place, int]] = field(default_factory=list)
    # (place, what it is written as)
    constants: list[tuple[Place, int | str]] = field(default_factory=list)
    # (place, name of a builtin type)
    typed: list[tuple[Place, str]] = field(default_factory=list)
    # With place, type, elements.
    containers: list[tuple[Place, str, tuple[Element, ...]]] = field(default_factory=list)
    # With result, object, attribute, runner, line.
    loads: list[tuple[Place, Place, str, Runner, int]] = field(default_factory=list)
    # With object, attribute, value, runner, line.
    stores: list[tuple[Place, str, Place, Runner, int]] = field(default_factory=list)
    # (result, container, key, place of the key, runner, line)
    items: list[tuple[Place, Place, Key, Place, Runner, int]] = field(default_factory=list)
    # (container, key, place of the key, value, runner, line)
    item_stores: list[tuple[Place, Key, Place, Place, Runner, int]] = field(default_factory=list)
    # (element, iterable, is it `async for`, runner, line)
    iterations: list[tuple[Place, Place, bool, Runner, int]] = field(default_factory=list)
    # With result, awaited, runner, line.
    awaits: list[tuple[Place, Place, Runner, int]] = field(default_factory=list)
    # (what `as` names, manager, is it `async with`, runner, line)
    contexts: list[tuple[Place, Place, bool, Runner, int]] = field(default_factory=list)
    # (result, operand, special method, arguments, runner, line)
    operators: list[tuple[Place, Place, str, tuple[Place, ...], Runner, int]] = field(
        default_factory=list
    )
    # With result, decorator, what is decorated, runner, line.
    decorations: list[tuple[Place, Place, Place, Runner, int]] = field(default_factory=list)
    # (result, index of classes, first parameter of the method)
    supers: list[tuple[Place, int, Place]] = field(default_factory=list)
    # (place, place of the class): an instance of it for certain; a place that is annotated with it
    instances: list[tuple[Place, Place]] = field(default_factory=list)
    hints: list[tuple[Place, Place]] = field(default_factory=list)
    # (place of what is raised, runner, line)
    raises: list[tuple[Place, Runner, int]] = field(default_factory=list)
    # (place or 0, dots, module, name or None for the module itself, runner, line)
    imports: list[tuple[Place, int, str, str | None, Runner, int]] = field(default_factory=list)
    # With dots, module, line.
    stars: list[tuple[int, str, int]] = field(default_factory=list)
    # (place, name): neither local nor the module's own
    unknown_names: list[tuple[Place, str]] = field(default_factory=list)

    def pack(self) -> Packed:
        """Return the statements as bytes, part by part: many files wait so."""
        return tuple(
            pickle.dumps([getattr(self, name) for name in names], -1) for names in _PARTS.values()
        )

    def forget(self, part: str) -> None:
        """Drop a part."""
        for name in _PARTS[part]:
            setattr(self, name, [])


# By part, in their order.
Packed = tuple[bytes, ...]
_PARTS = {
    "head": ("places", "exports", "public", "package", "stars"),
    "definitions": ("definitions",),
    "made": ("functions", "classes"),
    "names": (
        "copies", "function_values", "class_values", "imports", "unknown_names", "loads",
    ),
    "items": ("items", "decorations"),
    # What only who asks for calls has a use for.
    "actions": (
        "calls", "constants", "typed", "containers", "stores", "item_stores", "iterations",
        "awaits", "contexts", "operators", "supers", "instances", "hints", "raises",
    ),
}  # fmt: skip
_ORDER = {part: index for index, part in enumerate(_PARTS)}


class Shelved:
    """A summary that lies on a shelf."""

    __slots__ = ("_first", "_shelf")

    def __init__(self, shelf: Shelf, packed: Packed) -> None:
        self._shelf = shelf
        self._first = shelf.count
        for part in packed:
            shelf.put(part)

    def take(self, *parts: str) -> PythonSummary:
        """Return a summary that has these parts alone."""
        summary = PythonSummary()
        for part in parts:
            said = pickle.loads(self._shelf.get(self._first + _ORDER[part]))  # noqa: S301 - our own
            for name, statements in zip(_PARTS[part], said, strict=True):
                setattr(summary, name, statements)
        return summary
