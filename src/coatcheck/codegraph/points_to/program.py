"""The linked archive: functions, classes, module names, fields and call edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.archive import Module, SourceArchive
from coatcheck.codegraph.points_to.call_sites import CallEdges, CallSite, Keywords
from coatcheck.codegraph.points_to.flow import Flow

MAX_PATH_PARTS = 8

Named = tuple[tuple[str, int], ...]
# A lookup of an attribute along a class's bases: the class, the receiver, the variable of the
# result, the attribute, the caller, the line, the class after which super() starts.
Lookup = tuple["LinkedClass", int, int, str, int, int, "LinkedClass | None"]


@dataclass(slots=True, eq=False)
class Container:
    """The container that one expression creates: the variables of its elements."""

    kind: str
    all: int  # every element
    any: int  # elements at an unknown key
    appended: int  # elements appended later
    keys: int  # the keys of a dict
    length: int | None  # the number of elements in the source, if known
    elements: dict[int | str, int] = field(default_factory=dict)
    mirrors: list[Container] = field(default_factory=list)  # get every element of this one


@dataclass(slots=True, eq=False)
class LinkedFunction:
    """A function; its variables are numbered across the archive."""

    index: int
    definition: int
    name: str
    line: int
    result: int
    yields: int
    is_async: bool
    owner: int
    rest: Container | None  # *args
    keywords: Container | None  # **kwargs
    positional: Named
    keyword_only: Named
    defaults: Named
    returned_parameters: tuple[int, ...]
    stored_parameters: tuple[tuple[str, str], ...]
    _by_name: dict[str, int] | None = None

    @property
    def by_name(self) -> dict[str, int]:
        """The parameters that can be passed by name; built on demand."""
        if self._by_name is None:
            self._by_name = dict(self.positional + self.keyword_only)
        return self._by_name


@dataclass(slots=True, eq=False)
class LinkedClass:
    """A class; `mro` is its method resolution order, itself first."""

    index: int
    definition: int
    module: Module
    bases: tuple[int, ...]
    metaclass: int
    attributes: dict[str, int]
    fields: tuple[str, ...]
    caller: int
    line: int
    parents: tuple[LinkedClass, ...] = ()
    external_bases: tuple[str, ...] = ()
    mro: tuple[LinkedClass, ...] = ()
    all_external_bases: tuple[str, ...] = ()
    children: tuple[LinkedClass, ...] = ()
    is_enum: bool = False
    has_field_constructor: bool = False  # a dataclass or the like
    lookups: dict[str, list[Lookup]] = field(default_factory=dict)
    constructions: list[CallSite] = field(default_factory=list)

    def find(self, attribute: str, after: LinkedClass | None = None) -> int | None:
        """Return the variable of an attribute as Python finds it; `after` as super() does."""
        order = self.mro
        if after is not None:
            order = order[order.index(after) + 1 :] if after in order else ()
        for cls in order:
            var = cls.attributes.get(attribute)
            if var is not None:
                return var
        return None


class Partial(NamedTuple):
    """A `functools.partial` object."""

    function: int
    positional: tuple[int, ...]
    keywords: Keywords


class Property(NamedTuple):
    """The variables of a property's functions."""

    getter: int
    setter: int


class Program(Flow):
    """The state of the analysis of one archive."""

    def __init__(self, archive: SourceArchive) -> None:
        super().__init__()
        self.archive = archive
        self.functions: list[LinkedFunction] = []
        self.classes: list[LinkedClass] = []
        self.partials: list[Partial] = []
        self.properties: list[Property] = []
        self.call_edges = CallEdges()
        self._fields: dict[tuple[int, str], int] = {}
        self._implied: dict[tuple[str, int, int], CallSite] = {}

    def edge(self, site: CallSite, target: int | str) -> None:
        """Record a call edge; calls outside any definition have none."""
        if site.caller:
            self.call_edges.add(site, target)

    def edges(self) -> Iterator[tuple[int, int | str, int]]:
        """Yield caller, target and line of each call edge, except through unknown variables."""
        for site, target in self.call_edges:
            if not self.is_unknown(site.callee):
                yield site.caller, target, site.line

    def field(self, value: int, attribute: str) -> int:
        """Return the variable of an attribute that is stored on an object."""
        key = (value, attribute)
        var = self._fields.get(key)
        if var is None:
            var = self._fields[key] = self.new_var()
        return var

    # --- objects and calls

    def external(self, path: str) -> int:
        """Return the object of an import path outside the archive."""
        return self.make(kinds.EXTERNAL, path)

    def member(self, kind: int, path: str, attribute: str) -> int | None:
        """Return an attribute of an external object; None if the path grows without end."""
        if path.count(".") >= MAX_PATH_PARTS:
            return None
        return self.make(kind, f"{path}.{attribute}")

    def instance(self, cls: LinkedClass) -> int:
        """Return the object that stands for a class's instances."""
        return self.make(kinds.INSTANCE, cls.index)

    def site(self, caller: int, line: int, *positional: int, result: int = 0) -> CallSite:
        """Create an implicit call."""
        return CallSite(result or self.new_var(), positional, (), caller, line)

    def implied(self, what: str, caller: int, line: int, *positional: int, result: int) -> CallSite:
        """Return the implicit call of `what` with this result, shared by all receivers."""
        key = (what, result, caller)
        site = self._implied.get(key)
        if site is None:
            site = self._implied[key] = CallSite(result, positional, (), caller, line)
        return site
