"""Lists, tuples, sets and dicts: what is at which key, as far as keys are written out.

A container has a place for each key that is known, one for elements that may be at any key, one
for what is appended (which is never among the elements a list was written with), and one through
which all of them flow, for whoever takes any element. Dicts also have a place for their keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from coatcheck.surfaces.graphs.analysis.python.objects import Kind
from coatcheck.surfaces.graphs.analysis.python.program import Program
from coatcheck.surfaces.graphs.analysis.python.sites import Site
from coatcheck.surfaces.graphs.analysis.python.summary import Key


class Container:
    """One place in the code that makes a container; its places are the first and those after it."""

    __slots__ = ("all", "elements", "followers", "kind", "length", "number")

    def __init__(self, number: int, kind: str, first: int, length: int | None) -> None:
        self.number = number
        self.kind = kind
        self.all = first
        self.elements: dict[int | str, int] = {}
        self.followers: tuple[Container, ...] = ()  # those that take all it has, key by key
        self.length = length  # as it was written; None where that is not known

    @property
    def any(self) -> int:
        """The place of what may be at any key."""
        return self.all + 1

    @property
    def appended(self) -> int:
        """The place of what is appended."""
        return self.all + 2

    @property
    def keys(self) -> int:
        """The place of the keys."""
        return self.all + 3


class Containers(Program, ABC):
    """Knows what is in containers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.containers: list[Container] = []
        # Keys that nothing has arrived at when everything is still: any key, then.
        self.unknown_keys: list[tuple[int, Container, int, bool]] = []

    def make_container(self, kind: str, length: int | None = None) -> tuple[int, Container]:
        """Make a container and return its value with it."""
        container = Container(len(self.containers), kind, self.places(4) + 1, length)
        self.copy_once(container.any, container.all)
        self.copy_once(container.appended, container.all)
        self.containers.append(container)
        return self.objects.add(Kind.CONTAINER, container.number), container

    def made_by(self, site: Site, kind: str) -> tuple[int, Container]:
        """Return the one container that a call makes, so that `x = list(x)` comes to an end."""
        made = self.sites.made.get(site.number)
        if made is None:
            made, _ = self.make_container(kind)
            self.sites.made[site.number] = made
        return made, self.containers[self.objects.first[made]]

    def container_of(self, value: int) -> Container | None:
        """Return a value's container, None if it is something else."""
        if self.objects.kind[value] is not Kind.CONTAINER:
            return None
        container: Container = self.containers[self.objects.first[value]]
        return container

    def element(self, container: Container, key: int | str) -> int:
        """Return the place of what is at a key."""
        place = container.elements.get(key)
        if place is None:
            place = container.elements[key] = self.place()
            self.copy_once(place, container.all)
            if container.kind == "dict":
                self.add(container.keys, self.objects.make(Kind.CONSTANT, key))
            for follower in container.followers:
                self.copy(place, self.element(follower, key))
        return place

    def put(self, container: Container, key: Key, value: int) -> None:
        """Put a place's values at a key."""
        if not value:
            if key is not None and container.kind == "dict":
                self.element(container, key)
            return
        self.copy(value, container.any if key is None else self.element(container, key))

    def put_at(self, container: Container, key_place: int, value: int) -> None:
        """Put a place's values at the keys that another place holds."""
        if container.kind == "dict":
            self.copy(key_place, container.keys)
        self.watch(key_place, self._on_put_key, (container.number, value))
        self.unknown_keys.append((key_place, container, value, True))

    def _on_put_key(self, key: int, data: tuple[int, int]) -> None:
        container, value = self.containers[data[0]], data[1]
        if self.objects.kind[key] is Kind.CONSTANT:
            self.put(container, self.objects.first[key], value)
        else:
            self.put(container, None, value)

    def get(self, container: Container, key: Key, result: int) -> None:
        """Send what is at a key to a place; None: what is at any key."""
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

    def get_at(self, container: Container, key_place: int, result: int) -> None:
        """Send what is at the keys that a place holds to another place."""
        self.watch(key_place, self._on_get_key, (container.number, result))
        self.unknown_keys.append((key_place, container, result, False))

    def _on_get_key(self, key: int, data: tuple[int, int]) -> None:
        container, result = self.containers[data[0]], data[1]
        kind = self.objects.kind[key]
        self.get(container, self.objects.first[key] if kind is Kind.CONSTANT else None, result)

    def settle_keys(self) -> bool:
        """Let keys of which nothing is known be any key; tell whether there were any."""
        waiting, self.unknown_keys = self.unknown_keys, []
        changed = False
        for key_place, container, place, is_put in waiting:
            if not self.is_empty(key_place):
                continue
            changed = True
            if is_put:
                self.put(container, None, place)
            else:
                self.get(container, None, place)
        return changed

    def spread(self, container: Container, source: int) -> None:
        """Put the elements of whatever a place holds into a container."""
        self.watch(source, self._on_spread, (container.number,))

    def _on_spread(self, value: int, data: tuple[int]) -> None:
        container = self.containers[data[0]]
        other = self.container_of(value)
        if other is None:
            self.iterate(value, container.any, 0, 0)
        elif other.kind == "dict" and container.kind == "dict":
            self.copy(other.any, container.any)
            self.copy(other.keys, container.keys)
            self.follow(other, container)
        elif other.kind == "dict":
            self.copy(other.keys, container.any)
        else:
            self.copy(other.all, container.any)

    def follow(self, source: Container, target: Container) -> None:
        """Let a container have whatever another has or comes to have, at the same keys."""
        if source is target or target in source.followers:
            return
        source.followers += (target,)
        for key in list(source.elements):
            self.copy(source.elements[key], self.element(target, key))

    @abstractmethod
    def iterate(self, value: int, result: int, runner: int, line: int) -> None:
        """Send what iterating over a value yields to a place (calls.py)."""
