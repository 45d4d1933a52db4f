"""Lists, tuples, sets and dicts: what is at which key, as far as keys are written out.

A container has a place for each key that is known, one for elements that may be at any key, one
for what is appended (which is never among the elements a list was written with), and one through
which all of them flow, for whoever takes any element. Dicts also have a place for their keys.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

from coatcheck.codegraph.disk.column import MappedColumn
from coatcheck.codegraph.disk.lately import CachedRead, Lately
from coatcheck.codegraph.disk.queues import Rows
from coatcheck.codegraph.disk.runs import IntLists
from coatcheck.codegraph.disk.tables import Table
from coatcheck.codegraph.disk.words import Words
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.program import Program
from coatcheck.codegraph.python.summary import Key


class ContainerValue(NamedTuple):
    """One place in the code that makes a container; its places are the first and those after it."""

    number: int
    kind: str
    all: int

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


# What is kept of a container: its kind as a word, its first place, how many elements it was written
# with or -1 where that is not known, the runs of its keys and of those that follow it.
_MADE = Struct("5i")
_LENGTH, _KEYS, _FOLLOWERS = 2, 3, 4


def _container(made: MappedColumn, words: Words, number: int) -> ContainerValue:
    kind, first, _, _, _ = _MADE.unpack_from(made.numbers, 20 * number)
    return ContainerValue(number, words.at[kind], first)


class Containers(Program, ABC):
    """Knows what is in containers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._made = made = self.disk.column()
        self.containers: Lately[int, ContainerValue] = CachedRead(
            partial(_container, made, self.words)
        )
        # By container and key the place; by container the keys, and those that take all it has.
        self._element_places = Table(self.disk, 2)
        self._of_containers = IntLists(self.disk)
        # Keys that nothing has arrived at when everything is still: any key, then. The place of
        # the key, the container, the place of the element, and whether it is put there.
        self.unknown_keys = Rows(self.disk, 4)

    def make_container(self, kind: str, length: int | None = None) -> tuple[int, ContainerValue]:
        """Make a container and return its value with it."""
        start = self._made.add(5)
        container = ContainerValue(start // 5, kind, self.places(4) + 1)
        written = -1 if length is None else length
        _MADE.pack_into(
            self._made.numbers, 4 * start, self.words[kind], container.all, written, 0, 0
        )
        self.copy_once(container.any, container.all)
        self.copy_once(container.appended, container.all)
        return self.objects.make(ObjectKind.CONTAINER, container.number), container

    def length(self, container: ContainerValue) -> int | None:
        """Return how many elements a container was written with; None where that is not known."""
        length = self._made.numbers[5 * container.number + _LENGTH]
        return None if length < 0 else length

    def set_length(self, container: ContainerValue, length: int | None) -> None:
        """Say how many elements a container has."""
        self._made.numbers[5 * container.number + _LENGTH] = -1 if length is None else length

    def made_by(self, site: Site, kind: str) -> tuple[int, ContainerValue]:
        """Return the one container that a call makes, so that `x = list(x)` comes to an end."""
        made = self.sites.made.get(site.number)
        if made is None:
            made, _ = self.make_container(kind)
            self.sites.made.put((site.number,), made)
        return made, self.containers[self.objects.first[made]]

    def container_of(self, value: int) -> ContainerValue | None:
        """Return a value's container, None if it is something else."""
        if self.objects.kind[value] is not ObjectKind.CONTAINER:
            return None
        return self.containers[self.objects.first[value]]

    def element(self, container: ContainerValue, key: int | str) -> int:
        """Return the place of what is at a key."""
        word = self.words[key]
        place, is_new = self._element_places.get_or_make((container.number, word), self.place)
        if is_new:
            self._note(container, _KEYS, word)
            self.copy_once(place, container.all)
            if container.kind == "dict":
                self.add(container.keys, self.objects.make(ObjectKind.CONSTANT, key))
            for follower in self._noted(container, _FOLLOWERS):
                self.copy(place, self.element(self.containers[follower], key))
        return place

    def elements(self, container: ContainerValue) -> list[tuple[int | str, int]]:
        """Return the keys that are known, in their order, with the place of each."""
        return [
            (self.words.at[word], self._element_places.get(container.number, word) or 0)
            for word in self._noted(container, _KEYS)
        ]

    def _note(self, container: ContainerValue, of: int, number: int) -> None:
        at = 5 * container.number + of
        self._made.numbers[at] = self._of_containers.append(self._made.numbers[at], number)

    def _noted(self, container: ContainerValue, of: int) -> list[int]:
        return self._of_containers.of(self._made.numbers[5 * container.number + of])

    def put(self, container: ContainerValue, key: Key, value: int) -> None:
        """Put a place's values at a key."""
        if not value:
            if key is not None and container.kind == "dict":
                self.element(container, key)
            return
        self.copy(value, container.any if key is None else self.element(container, key))

    def put_at(self, container: ContainerValue, key_place: int, value: int) -> None:
        """Put a place's values at the keys that another place holds."""
        if container.kind == "dict":
            self.copy(key_place, container.keys)
        self.watch(key_place, self._on_put_key, (container.number, value))
        self.unknown_keys.append(key_place, container.number, value, True)

    def _on_put_key(self, key: int, data: tuple[int, int]) -> None:
        container, value = self.containers[data[0]], data[1]
        if self.objects.kind[key] is ObjectKind.CONSTANT:
            self.put(container, self.objects.first[key], value)
        else:
            self.put(container, None, value)

    def get(self, container: ContainerValue, key: Key, result: int) -> None:
        """Send what is at a key to a place; None: what is at any key."""
        if key is None:
            self.copy(container.all, result)
            return
        if isinstance(key, int) and container.kind != "dict":
            length = self.length(container)
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

    def get_at(self, container: ContainerValue, key_place: int, result: int) -> None:
        """Send what is at the keys that a place holds to another place."""
        self.watch(key_place, self._on_get_key, (container.number, result))
        self.unknown_keys.append(key_place, container.number, result, False)

    def _on_get_key(self, key: int, data: tuple[int, int]) -> None:
        container, result = self.containers[data[0]], data[1]
        kind = self.objects.kind[key]
        self.get(
            container, self.objects.first[key] if kind is ObjectKind.CONSTANT else None, result
        )

    def settle_keys(self) -> bool:
        """Let keys of which nothing is known be any key; tell whether there were any."""
        waiting, self.unknown_keys = self.unknown_keys, Rows(self.disk, 4)
        changed = False
        for key_place, number, place, is_put in waiting:
            self.breathe()
            if not self.is_empty(key_place):
                continue
            changed = True
            container = self.containers[number]
            if is_put:
                self.put(container, None, place)
            else:
                self.get(container, None, place)
        return changed

    def spread(self, container: ContainerValue, source: int) -> None:
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

    def follow(self, source: ContainerValue, target: ContainerValue) -> None:
        """Let a container have whatever another has or comes to have, at the same keys."""
        if source.number == target.number or target.number in self._noted(source, _FOLLOWERS):
            return
        self._note(source, _FOLLOWERS, target.number)
        for key, place in self.elements(source):
            self.copy(place, self.element(target, key))

    @abstractmethod
    def iterate(self, value: int, result: int, runner: int, line: int) -> None:
        """Send what iterating over a value yields to a place (operations.py)."""
