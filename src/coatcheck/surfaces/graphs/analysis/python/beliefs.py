"""What is believed only where nothing is known, once values have stopped flowing.

A decorator of which nothing is known hands back what it decorates; the first parameter of a method
that nobody calls is an instance of its class; a parameter is what its annotation says, or its
default; a key is any key; an attribute that no class of the archive has is the one base's outside
of it. Each belief is followed by letting values flow again, until there is nothing to believe.
"""

from __future__ import annotations

from typing import Any

from coatcheck.surfaces.graphs.analysis.python.models import Models
from coatcheck.surfaces.graphs.analysis.python.objects import Kind
from coatcheck.surfaces.graphs.analysis.python.program import LinkedFunction
from coatcheck.surfaces.graphs.analysis.python.summary import Definition

_CLASS_FIRST = {"__new__", "__init_subclass__", "__class_getitem__"}
MOST_ROUNDS = 6


class Beliefs(Models):
    """Knows what to believe."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # 0 is nobody.
        self.definitions: list[Definition | None] = [None]
        # With result, and what is decorated.
        self.decorations: list[tuple[int, int]] = []
        # With place, and the place of the class it is annotated with; below 0: of the value itself.
        self.hints: list[tuple[int, int]] = []
        self._kept_by: dict[int, tuple[LinkedFunction, str]] = {}

    def settle(self) -> None:
        """Believe what is left to believe."""
        self._settle_receivers()
        self._kept_by = {
            function.by_name[name]: (function, attribute)
            for function in self.functions
            for attribute, name in function.keeps
        }
        self.run()
        for _ in range(MOST_ROUNDS):
            changed = [
                self.settle_decorations(),
                self._settle_defaults(),
                self._settle_hints(),
                self.settle_keys(),
                self.settle_attributes(),
            ]
            self.run()
            if not any(changed):
                break

    def settle_decorations(self) -> bool:
        """Let unknown decorators hand back what they decorate; tell whether that helped."""
        waiting, self.decorations = self.decorations, []
        changed = False
        for result, target in waiting:
            if not self.is_empty(result):
                continue
            if not self.is_empty(target):
                changed = True
                self.copy(target, result)
            else:
                self.decorations.append((result, target))
        return changed

    def _settle_receivers(self) -> None:
        static: set[int] = set()
        of_class: set[int] = set()
        for value, kind in enumerate(self.objects.kind):
            if kind is Kind.STATIC or kind is Kind.CLASS_METHOD:
                inner = self.objects.first[value]
                if self.objects.kind[inner] is Kind.FUNCTION:
                    (static if kind is Kind.STATIC else of_class).add(self.objects.first[inner])
        unreached = [
            function
            for function in self.functions
            if function.owner >= 0 and function.positional and function.index not in static
            if self.is_empty(function.positional[0][1])
        ]
        for function in unreached:
            definition = self.definitions[function.definition]
            takes_class = function.index in of_class or (
                definition is not None and definition.name in _CLASS_FIRST
            )
            kind = Kind.CLASS if takes_class else Kind.INSTANCE
            value = self.objects.make(kind, function.owner)
            self.add(function.positional[0][1], value)
            for attribute, name in function.keeps:
                line = definition.line if definition is not None else 0
                number = self.words[attribute]
                data = (number, function.by_name[name], function.definition, line)
                self.on_store(value, data)

    def _settle_defaults(self) -> bool:
        changed = False
        for function in self.functions:
            for name, default in function.defaults:
                parameter = function.by_name[name]
                if self.is_empty(parameter) and not self.is_empty(default):
                    changed = True
                    self.copy(default, parameter)
        return changed

    def _settle_hints(self) -> bool:
        changed = False
        waiting, self.hints = self.hints, []
        for place, cls in waiting:
            if not self.is_empty(place):
                continue
            if cls < 0:
                self.copy(-cls, place)
            else:
                self.instances_of(cls, place)
            changed = True
            if place in self._kept_by:
                self._keep_hint(place)
        return changed

    def _keep_hint(self, place: int) -> None:
        """Let what a parameter is believed to be reach the attribute that keeps it."""
        function, attribute = self._kept_by[place]
        data = (self.words[attribute], place, function.definition, 0)
        self.watch(function.positional[0][1], self.on_store, data)
