"""Lists, tuples, sets and dicts: elements by key, as far as keys are literals.

A container has one variable for each known key, one for elements at an unknown key, one for
appended elements (which are never at an index the literal fills), and one that collects all of
them for whoever takes any element. A dict also has a variable for its keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.program import Container, Program
from coatcheck.codegraph.summary import Key


class Containers(Program, ABC):
    """Elements of containers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Accesses at a key that may stay empty: the key's variable, the container, the element's
        # variable, and whether the access stores.
        self.unknown_keys: list[tuple[int, Container, int, bool]] = []

    def make_container(self, kind: str, length: int | None = None) -> tuple[int, Container]:
        """Create a container and return its value with it."""
        every = self.new_vars(4) + 1
        container = Container(kind, every, every + 1, every + 2, every + 3, length)
        self.add_copy(container.any, every)
        self.add_copy(container.appended, every)
        return self.make(kinds.CONTAINER, container), container

    def container_at(self, site: CallSite, kind: str) -> tuple[int, Container]:
        """Return the one container that a call creates, so that `x = list(x)` terminates."""
        if site.container is None:
            site.container = self.make_container(kind)
        made: tuple[int, Container] = site.container
        return made

    def container_of(self, value: int) -> Container | None:
        """Return a value's container, or None if the value is no container."""
        return self.first[value] if self.kind[value] == kinds.CONTAINER else None

    def element(self, container: Container, key: int | str) -> int:
        """Return the variable of the element at a key."""
        var = container.elements.get(key)
        if var is None:
            var = container.elements[key] = self.new_var()
            self.add_copy(var, container.all)
            if container.kind == "dict":
                self.add(container.keys, self.make(kinds.CONSTANT, key))
            for mirror in tuple(container.mirrors):
                self.copy(var, self.element(mirror, key))
        return var

    def put(self, container: Container, key: Key, value: int) -> None:
        """Store a variable at a key."""
        if not value:
            if key is not None and container.kind == "dict":
                self.element(container, key)
            return
        self.copy(value, container.any if key is None else self.element(container, key))

    def put_at(self, container: Container, key_var: int, value: int) -> None:
        """Store a variable at the keys that another variable holds."""
        if container.kind == "dict":
            self.copy(key_var, container.keys)
        self.subscribe(key_var, self._on_put_key, (container, value))
        self.unknown_keys.append((key_var, container, value, True))

    def _on_put_key(self, key: int, data: tuple[Container, int]) -> None:
        container, value = data
        self.put(container, self.first[key] if self.kind[key] == kinds.CONSTANT else None, value)

    def get(self, container: Container, key: Key, result: int) -> None:
        """Load the element at a key into a variable; None is any key."""
        if key is None:
            self.copy(container.all, result)
            return
        if isinstance(key, int) and container.kind != "dict":
            length = container.length
            if key < 0 and length is not None:
                key += length
                self.copy(container.appended, result)
            if length is None or key >= length or key < 0:
                self.copy(container.appended, result)
            if key < 0:
                self.copy(container.all, result)
                return
        self.copy(self.element(container, key), result)
        self.copy(container.any, result)

    def get_at(self, container: Container, key_var: int, result: int) -> None:
        """Load the elements at the keys that a variable holds into another variable."""
        self.subscribe(key_var, self._on_get_key, (container, result))
        self.unknown_keys.append((key_var, container, result, False))

    def _on_get_key(self, key: int, data: tuple[Container, int]) -> None:
        container, result = data
        self.get(container, self.first[key] if self.kind[key] == kinds.CONSTANT else None, result)

    def apply_key_fallbacks(self) -> bool:
        """Treat keys that are still empty as any key; tell whether there were any."""
        waiting, self.unknown_keys = self.unknown_keys, []
        changed = False
        for key_var, container, var, is_put in waiting:
            if self.is_empty(key_var):
                changed = True
                if is_put:
                    self.put(container, None, var)
                else:
                    self.get(container, None, var)
        return changed

    def spread(self, container: Container, source: int) -> None:
        """Add the elements of every value of a variable to a container."""
        self.subscribe(source, self._on_spread, container)

    def _on_spread(self, value: int, container: Container) -> None:
        other = self.container_of(value)
        if other is None:
            self.iterate(value, container.any, 0, 0)
        elif other.kind == "dict" and container.kind == "dict":
            self.copy(other.any, container.any)
            self.copy(other.keys, container.keys)
            self.mirror(other, container)
        elif other.kind == "dict":
            self.copy(other.keys, container.any)
        else:
            self.copy(other.all, container.any)

    def mirror(self, source: Container, target: Container) -> None:
        """Copy every element of a container, present or future, to the same key of another."""
        if source is target or target in source.mirrors:
            return
        source.mirrors.append(target)
        for key, var in tuple(source.elements.items()):
            self.copy(var, self.element(target, key))

    @abstractmethod
    def iterate(self, value: int, result: int, caller: int, line: int) -> None:
        """Send the elements of an iterable value to a variable (operations.py)."""
