"""The archive's functions and classes with their places among all places, and the call edges."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.surfaces.graphs.analysis.python.archive import Archive, Module
from coatcheck.surfaces.graphs.analysis.python.flow import FEW, Flow
from coatcheck.surfaces.graphs.analysis.python.objects import Kind

LONGEST_PATH = 8

Called = int | tuple[int, str]


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


@dataclass(slots=True, eq=False)
class Site:
    """A call as it is written, or one that Python makes without it being written as one."""

    result: int
    positional: tuple[int, ...]
    keywords: tuple[tuple[str | None, int], ...]
    runner: int
    line: int
    # What it has called: values, and methods of them by name. Most sites call one thing, once.
    applied: tuple[Called, ...] | set[Called] = ()
    callee: int = 0  # the place of what is called, where it is written
    # Definitions, and names of what is outside.
    targets: tuple[int | str, ...] = ()
    is_silent: bool = False  # a declaration rather than a call, as @property
    depth: int = 0  # how many calls that Python makes by itself led to this one
    made: int | None = None  # the container that it makes, whatever it is called on
    inner: Site | None = None  # what makes the pairs of `items`

    def applies(self, value: Called) -> bool:
        """Note that a value, or a method of one, is called; tell whether it was not before."""
        applied = self.applied
        if value in applied:
            return False
        if isinstance(applied, set):
            applied.add(value)
        elif len(applied) < FEW:
            self.applied = (*applied, value)
        else:
            self.applied = {*applied, value}
        return True


class Partial(NamedTuple):
    """What `functools.partial` holds."""

    function: int
    positional: tuple[int, ...]
    keywords: tuple[tuple[str | None, int], ...]


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
        self.sites: list[Site] = []  # those that call something
        self._fields: dict[int, dict[str, int]] = {}
        self._implied: dict[tuple[str, int, int], Site] = {}

    def edge(self, site: Site, target: int | str) -> None:
        """Note that a call calls something."""
        if site.runner and target not in site.targets:
            if not site.targets:
                self.sites.append(site)
            site.targets += (target,)

    def edges(self) -> dict[tuple[int, int | str], int]:
        """Return who calls whom, with the first line; what may be anything is left out."""
        found: dict[tuple[int, int | str], int] = {}
        for site in self.sites:
            if self.is_unknown(site.callee):
                continue
            for target in site.targets:
                key = (site.runner, target)
                before = found.get(key)
                if before is None or site.line < before:
                    found[key] = site.line
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
        return Site(result or self.place(), positional, (), runner, line)

    def implied(self, what: str, runner: int, line: int, *positional: int, result: int) -> Site:
        """Return the one call that stands for `what` with this result, whoever the receiver is."""
        key = (what, result, runner)
        site = self._implied.get(key)
        if site is None:
            site = self._implied[key] = Site(result, positional, (), runner, line)
        return site
