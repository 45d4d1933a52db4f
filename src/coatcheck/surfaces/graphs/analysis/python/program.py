"""The archive's functions and classes with their places among all places, and the call edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.surfaces.graphs.analysis.python.archive import Archive, Module
from coatcheck.surfaces.graphs.analysis.python.flow import Flow
from coatcheck.surfaces.graphs.analysis.python.objects import Kind
from coatcheck.surfaces.graphs.analysis.python.sites import Keywords, Site, Sites
from coatcheck.surfaces.graphs.analysis.python.words import Words

LONGEST_PATH = 8


@dataclass(slots=True, eq=False)
class LinkedFunction:
    """A function; its places are those of the whole archive."""

    index: int
    definition: int
    module: Module
    positional: tuple[tuple[str, int], ...]
    rest: int
    keyword_only: tuple[tuple[str, int], ...]
    keywords: int
    defaults: tuple[tuple[str, int], ...]
    result: int
    passes: tuple[int, ...]
    keeps: tuple[tuple[str, str], ...]
    yields: int
    is_async: bool
    owner: int
    rest_container: int = -1
    keywords_container: int = -1
    _by_name: dict[str, int] | None = None

    @property
    def by_name(self) -> dict[str, int]:
        """The parameters that can be named; few functions are asked for them."""
        if self._by_name is None:
            self._by_name = dict(self.positional + self.keyword_only)
        return self._by_name


@dataclass(slots=True, eq=False)
class LinkedClass:
    """A class; `line_of_bases` is its order of method resolution, itself first."""

    index: int
    definition: int
    module: Module
    bases: tuple[int, ...]
    metaclass: int
    attributes: dict[str, int]
    fields: tuple[str, ...]
    runner: int
    line: int
    parents: list[LinkedClass] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)  # bases that are not of the archive
    line_of_bases: list[LinkedClass] = field(default_factory=list)
    all_outside: list[str] = field(default_factory=list)
    children: list[LinkedClass] = field(default_factory=list)
    is_enum: bool = False
    makes_constructor: bool = False  # a dataclass or the like

    def find(self, attribute: str, after: LinkedClass | None = None) -> int | None:
        """Return the place of an attribute, as Python would find it; `after` as super() does."""
        passed = after is None
        for one in self.line_of_bases:
            if passed:
                place = one.attributes.get(attribute)
                if place is not None:
                    return place
            elif one is after:
                passed = True
        return None


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

    def __init__(self, archive: Archive) -> None:
        super().__init__()
        self.archive = archive
        self.functions: list[LinkedFunction] = []
        self.classes: list[LinkedClass] = []
        self.partials: list[Partial] = []
        self.properties: list[Property] = []
        self.words = Words()
        self.sites = Sites(self.words)
        self._fields: dict[int, dict[str, int]] = {}
        self._implied: dict[tuple[str, int, int], int] = {}

    def edge(self, site: Site, target: int | str) -> None:
        """Note that a call calls something."""
        if site.runner:
            self.sites.edge(site.number, target)

    def edges(self) -> dict[tuple[int, int | str], int]:
        """Return who calls whom, with the first line; what may be anything is left out."""
        found: dict[tuple[int, int | str], int] = {}
        for callee, runner, line, target in self.sites.edges():
            if not self.is_unknown(callee):
                key = (runner, target)
                before = found.get(key)
                if before is None or line < before:
                    found[key] = line
        return found

    def field(self, value: int, attribute: str) -> int:
        """Return the place of what is stored in an attribute of a value."""
        fields = self._fields.setdefault(value, {})
        place = fields.get(attribute)
        if place is None:
            place = fields[attribute] = self.place()
        return place

    def external(self, path: str) -> int:
        """Return the value of something outside the archive."""
        return self.objects.make(Kind.EXTERNAL, path)

    def member(self, kind: Kind, path: str, attribute: str) -> int | None:
        """Return an attribute of something outside; None where it goes on and on (`x = x.next`)."""
        if path.count(".") >= LONGEST_PATH:
            return None
        return self.objects.make(kind, f"{path}.{attribute}")

    def instance(self, cls: LinkedClass) -> int:
        """Return the value of a class's instances."""
        return self.objects.make(Kind.INSTANCE, cls.index)

    def site(self, runner: int, line: int, *positional: int, result: int = 0) -> Site:
        """Make a call that Python makes by itself."""
        return self.sites.new(result or self.place(), positional, (), runner, line)

    def implied(self, what: str, runner: int, line: int, *positional: int, result: int) -> Site:
        """Return the one call that stands for `what` with this result, whoever the receiver is."""
        key = (what, result, runner)
        number = self._implied.get(key)
        if number is not None:
            return self.sites.at(number)
        site = self.sites.new(result, positional, (), runner, line)
        self._implied[key] = site.number
        return site
