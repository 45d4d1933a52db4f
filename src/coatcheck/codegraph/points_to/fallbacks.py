"""Guesses for variables that are still empty at a fixpoint.

An unknown decorator returns the function it decorates. The first parameter of a method that nobody
calls is an instance of its class. A parameter has the type of its annotation, or its default. An
empty key is any key. An attribute that no class of the archive has comes from the only external
base. Each round of guesses is followed by a run of the solver, until no guess is left.
"""

from __future__ import annotations

from typing import Any

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.models import Models
from coatcheck.codegraph.points_to.program import LinkedFunction

_CLASS_FIRST = {"__new__", "__init_subclass__", "__class_getitem__"}
MAX_ROUNDS = 6


class Fallbacks(Models):
    """Fallbacks for empty variables."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # The variables of the result and of the decorated function.
        self.decorations: list[tuple[int, int]] = []
        # An annotated variable and the variable of its class; below 0: of the value itself.
        self.annotations: list[tuple[int, int]] = []
        self._methods: list[LinkedFunction] = []
        # The variables of a default and of its parameter.
        self._defaults: list[tuple[int, int]] = []
        # By a parameter's variable: the function, and the attribute that stores it.
        self._stored_parameters: dict[int, tuple[LinkedFunction, str]] = {}

    def register_function(self, function: LinkedFunction) -> None:
        """Record the guesses that a function allows."""
        if function.owner >= 0 and function.positional:
            self._methods.append(function)
        for name, default in function.defaults:
            self._defaults.append((default, function.by_name[name]))
        for attribute, name in function.stored_parameters:
            self._stored_parameters[function.by_name[name]] = (function, attribute)

    def apply_fallbacks(self) -> None:
        """Apply guesses until none is left."""
        self._apply_receiver_fallbacks()
        self.run()
        for _ in range(MAX_ROUNDS):
            changed = [
                self.apply_decorator_fallbacks(),
                self._apply_default_fallbacks(),
                self._apply_annotation_fallbacks(),
                self.apply_key_fallbacks(),
                self.apply_attribute_fallbacks(),
            ]
            self.run()
            if not any(changed):
                break

    def apply_decorator_fallbacks(self) -> bool:
        """Let unknown decorators return the function they decorate; tell whether that helped."""
        waiting, self.decorations = self.decorations, []
        changed = False
        for result, target in waiting:
            if not self.is_empty(result):
                continue
            if self.is_empty(target):
                self.decorations.append((result, target))
            else:
                changed = True
                self.copy(target, result)
        return changed

    def _apply_receiver_fallbacks(self) -> None:
        static: set[int] = set()
        of_class: set[int] = set()
        for kind, inner in zip(self.kind, self.first, strict=True):
            found = {kinds.STATIC: static, kinds.CLASS_METHOD: of_class}.get(kind)
            if found is not None and self.kind[inner] == kinds.FUNCTION:
                found.add(self.first[inner])
        unreached = [
            function
            for function in self._methods
            if function.index not in static and self.is_empty(function.positional[0][1])
        ]
        for function in unreached:
            takes_class = function.index in of_class or function.name in _CLASS_FIRST
            value = self.make(kinds.CLASS if takes_class else kinds.INSTANCE, function.owner)
            self.add(function.positional[0][1], value)
            for attribute, name in function.stored_parameters:
                var = function.by_name[name]
                self.on_store(value, (attribute, var, function.definition, function.line))

    def _apply_default_fallbacks(self) -> bool:
        changed = False
        for default, parameter in self._defaults:
            if self.is_empty(parameter) and not self.is_empty(default):
                changed = True
                self.copy(default, parameter)
        return changed

    def _apply_annotation_fallbacks(self) -> bool:
        changed = False
        waiting, self.annotations = self.annotations, []
        for var, cls in waiting:
            if not self.is_empty(var):
                continue
            if cls < 0:
                self.copy(-cls, var)
            else:
                self.instances_of(cls, var)
            changed = True
            stored = self._stored_parameters.get(var)
            if stored is not None:
                function, attribute = stored
                data = (attribute, var, function.definition, function.line)
                self.subscribe(function.positional[0][1], self.on_store, data)
        return changed
