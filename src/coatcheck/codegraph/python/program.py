"""The archive's classes and values with their places among all places, and the call edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.runs import IntLists
from coatcheck.codegraph.disk.tables import Table
from coatcheck.codegraph.python.archive import Module, SourceArchive
from coatcheck.codegraph.python.call_sites import Keywords, Site, Sites
from coatcheck.codegraph.python.flow import Flow
from coatcheck.codegraph.python.functions import Functions
from coatcheck.codegraph.python.objects import ObjectKind

LONGEST_PATH = 8


@dataclass(slots=True, eq=False)
class LinkedClass:
    """A class; `line_of_bases` is its order of method resolution, itself first."""

    index: int
    definition: int
    module: Module
    bases: tuple[int, ...]
    metaclass: int
    fields: tuple[str, ...]
    runner: int
    line: int
    parents: tuple[LinkedClass, ...] = ()
    outside: tuple[str, ...] = ()  # bases that are not of the archive
    line_of_bases: tuple[LinkedClass, ...] = ()
    all_outside: tuple[str, ...] = ()
    children: tuple[LinkedClass, ...] = ()
    is_enum: bool = False
    makes_constructor: bool = False  # a dataclass or the like
    # One of 64 bits for each attribute that it has: most questions are answered by them.
    has: int = 0
    asked: int = 0  # the run of attributes that were looked for in it
    constructions: int = 0  # the run of sites that make an instance


class Partial(NamedTuple):
    """What `functools.partial` holds."""

    function: int
    positional: tuple[int, ...]
    keywords: Keywords


class Property(NamedTuple):
    """The places of a property's functions."""

    getter: int
    setter: int


class Program(Flow):
    """Everything that is known of the archive while values flow."""

    def __init__(self, archive: SourceArchive, disk: Disk | None = None) -> None:
        super().__init__(disk)
        self.archive = archive
        self.functions = Functions(self.disk, self.words)
        self.classes: list[LinkedClass] = []
        self.partials: list[Partial] = []
        self.properties: list[Property] = []
        self.sites = Sites(self.disk, self.words)
        # By class and attribute, value and attribute, module and name: the place.
        self._attributes = Table(self.disk, 2)
        self._fields = Table(self.disk, 2)
        self._exports = Table(self.disk, 2)
        self._implied = Table(self.disk, 3)
        # What has been asked of classes, and done with them.
        self.of_classes = IntLists(self.disk)

    def edge(self, site: Site, target: int | str) -> None:
        """Note that a call calls something."""
        if site.runner:
            self.sites.edge(site.number, target)

    def edges(self) -> Iterator[tuple[int, int | str, int]]:
        """Yield who calls whom, and the line; what may be anything is left out."""
        for callee, runner, line, target in self.sites.edges():
            if not self.is_unknown(callee):
                yield runner, target, line

    # --- places by name

    def export(self, module: Module, name: str) -> int | None:
        """Return the place of a module's own name, None where it has none."""
        return self._exports.get(module.index, self.words[name])

    def set_exports(self, module: Module, exports: dict[str, int]) -> None:
        """Note the names that a module has."""
        for name, place in exports.items():
            self._exports.put((module.index, self.words[name]), module.base + place)

    def own_attribute(self, cls: LinkedClass, attribute: str) -> int | None:
        """Return the place of an attribute that a class has by itself."""
        return self._own(cls, self.words[attribute])

    def _own(self, cls: LinkedClass, word: int) -> int | None:
        return self._attributes.get(cls.index, word) if cls.has >> (word & 63) & 1 else None

    def set_attribute(self, cls: LinkedClass, attribute: str, place: int) -> None:
        """Give a class an attribute of its own."""
        word = self.words[attribute]
        cls.has |= 1 << (word & 63)
        self._attributes.put((cls.index, word), place)

    def find(
        self, cls: LinkedClass, attribute: str, after: LinkedClass | None = None
    ) -> int | None:
        """Return the place of an attribute, as Python would find it; `after` as super() does."""
        word = self.words[attribute]
        passed = after is None
        for one in cls.line_of_bases:
            if passed:
                place = self._own(one, word)
                if place is not None:
                    return place
            elif one is after:
                passed = True
        return None

    def field(self, value: int, attribute: str) -> int:
        """Return the place of what is stored in an attribute of a value."""
        place, _ = self._fields.get_or_make((value, self.words[attribute]), self.place)
        return place

    # --- values and calls

    def external(self, path: str) -> int:
        """Return the value of something outside the archive."""
        return self.objects.make(ObjectKind.EXTERNAL, path)

    def member(self, kind: ObjectKind, path: str, attribute: str) -> int | None:
        """Return an attribute of something outside; None where it goes on and on (`x = x.next`)."""
        if path.count(".") >= LONGEST_PATH:
            return None
        return self.objects.make(kind, f"{path}.{attribute}")

    def instance(self, cls: LinkedClass) -> int:
        """Return the value of a class's instances."""
        return self.objects.make(ObjectKind.INSTANCE, cls.index)

    def site(self, runner: int, line: int, *positional: int, result: int = 0) -> Site:
        """Make a call that Python makes by itself."""
        return self.sites.new(result or self.place(), positional, (), runner, line)

    def implied(self, what: str, runner: int, line: int, *positional: int, result: int) -> Site:
        """Return the one call that stands for `what` with this result, whoever the receiver is."""
        key = (self.words[what], result, runner)
        number = self._implied.get(*key)
        if number is not None:
            return self.sites.at(number)
        site = self.sites.new(result, positional, (), runner, line)
        self._implied.put(key, site.number)
        return site
