"""What is believed only where nothing is known, once values have stopped flowing.

A decorator of which nothing is known hands back what it decorates; the first parameter of a method
that nobody calls is an instance of its class; a parameter is what its annotation says, or its
default; a key is any key; an attribute that no class of the archive has is the one base's outside
of it. Each belief is followed by letting values flow again, until there is nothing to believe.
"""

from __future__ import annotations

from typing import Any

from coatcheck.codegraph.disk.queues import Rows
from coatcheck.codegraph.disk.tables import Table
from coatcheck.codegraph.python.functions import LinkedFunction
from coatcheck.codegraph.python.models import Models
from coatcheck.codegraph.python.objects import ObjectKind

_CLASS_FIRST = {"__new__", "__init_subclass__", "__class_getitem__"}
MOST_ROUNDS = 6


class Beliefs(Models):
    """Knows what to believe."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # With result, and what is decorated.
        self.decorations = Rows(self.disk, 2)
        # With place, and the place of the class it is annotated with; below 0: of the value itself.
        self.hints = Rows(self.disk, 2)
        # Methods, each with the place of its first parameter.
        self._methods = Rows(self.disk, 2)
        # A parameter's default, and the parameter.
        self._defaults = Rows(self.disk, 2)
        # By a parameter's place: the function, and the attribute that keeps it.
        self._kept_by = Table(self.disk, 1)
        self._kept_as = Table(self.disk, 1)

    def believe_of(self, function: LinkedFunction) -> None:
        """Note what may be believed of a function."""
        if function.owner >= 0 and function.positional:
            self._methods.append(function.index, function.positional[0][1])
        for name, default in function.defaults:
            self._defaults.append(default, function.by_name[name])
        for attribute, name in function.keeps:
            parameter = (function.by_name[name],)
            self._kept_by.put(parameter, function.index)
            self._kept_as.put(parameter, self.words[attribute])

    def settle(self) -> None:
        """Believe what is left to believe."""
        self._settle_receivers()
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
        waiting, self.decorations = self.decorations, Rows(self.disk, 2)
        changed = False
        for result, target in waiting:
            if not self.is_empty(result):
                continue
            if not self.is_empty(target):
                changed = True
                self.copy(target, result)
            else:
                self.decorations.append(result, target)
        return changed

    def _settle_receivers(self) -> None:
        static: set[int] = set()
        of_class: set[int] = set()
        for value in self.objects.all:
            self.breathe()
            kind = self.objects.kind[value]
            if kind is ObjectKind.STATIC or kind is ObjectKind.CLASS_METHOD:
                inner = self.objects.first[value]
                if self.objects.kind[inner] is ObjectKind.FUNCTION:
                    (static if kind is ObjectKind.STATIC else of_class).add(
                        self.objects.first[inner]
                    )
        unreached = Rows(self.disk, 1)
        for index, receiver in self._methods:
            if index not in static and self.is_empty(receiver):
                unreached.append(index)
        for (index,) in unreached:
            self.breathe()
            function = self.functions[index]
            takes_class = index in of_class or function.name in _CLASS_FIRST
            kind = ObjectKind.CLASS if takes_class else ObjectKind.INSTANCE
            value = self.objects.make(kind, function.owner)
            self.add(function.positional[0][1], value)
            for attribute, name in function.keeps:
                number = self.words[attribute]
                data = (number, function.by_name[name], function.definition, function.line)
                self.on_store(value, data)

    def _settle_defaults(self) -> bool:
        changed = False
        for default, parameter in self._defaults:
            self.breathe()
            if self.is_empty(parameter) and not self.is_empty(default):
                changed = True
                self.copy(default, parameter)
        return changed

    def _settle_hints(self) -> bool:
        changed = False
        waiting, self.hints = self.hints, Rows(self.disk, 2)
        for place, cls in waiting:
            self.breathe()
            if not self.is_empty(place):
                continue
            if cls < 0:
                self.copy(-cls, place)
            else:
                self.instances_of(cls, place)
            changed = True
            self._keep_hint(place)
        return changed

    def _keep_hint(self, place: int) -> None:
        """Let what a parameter is believed to be reach the attribute that keeps it."""
        index, attribute = self._kept_by.get(place), self._kept_as.get(place)
        if index is None or attribute is None:
            return
        function = self.functions[index]
        data = (attribute, place, function.definition, function.line)
        self.watch(function.positional[0][1], self.on_store, data)
