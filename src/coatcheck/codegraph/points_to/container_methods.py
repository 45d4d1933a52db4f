"""Methods of builtin types: the effect of `append`, `items` or `pop` on a container."""

from __future__ import annotations

import collections

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.operations import Operations
from coatcheck.codegraph.points_to.program import Container

_TEXT_TO_TEXT = {
    "join", "strip", "lstrip", "rstrip", "lower", "upper", "title", "format", "replace", "encode",
    "decode", "capitalize", "center", "ljust", "rjust", "zfill", "casefold", "removeprefix",
    "removesuffix", "expandtabs", "swapcase", "translate",
}  # fmt: skip


class ContainerMethods(Operations):
    """Methods of builtin types."""

    def call_method_of(self, value: int, site: CallSite) -> None:
        """Call a method of a container, a text, a generator or a property."""
        owner, name = self.first[value], self.second[value]
        kind = self.kind[owner]
        if kind == kinds.PROPERTY:
            self._call_property_method(owner, name, site)
        elif kind == kinds.GENERATOR:
            if name in {"send", "__next__"}:
                self.iterate(owner, site.result, site.caller, site.line)
        elif kind == kinds.CONTAINER:
            container = self.first[owner]
            if hasattr(_BUILTIN_TYPES.get(container.kind), name):
                outside = "collections.deque" if container.kind == "deque" else None
                shown = outside or f"<builtin>.{container.kind}"
                self.edge(site, f"{shown}.{name}")
                self._call_container_method(owner, container, name, site)
        elif kind == kinds.NAMESPACE:
            if name == "get" and site.positional and site.positional[0] > 0:
                data = (self.first[owner], site.result, site.caller, site.line)
                self.subscribe(site.positional[0], self.on_attribute_name, data)
        else:
            type_name = self._type_name(owner)
            if hasattr(_BUILTIN_TYPES.get(type_name), name):
                self.edge(site, f"<builtin>.{type_name}.{name}")
                self._call_text_method(name, site)

    def _type_name(self, value: int) -> str:
        first = self.first[value]
        if self.kind[value] == kinds.TYPED:
            return str(first)
        return "str" if isinstance(first, str) else "int"

    def _call_text_method(self, name: str, site: CallSite) -> None:
        if name in _TEXT_TO_TEXT:
            self.add(site.result, self.make(kinds.TYPED, "str"))
        elif name in {"split", "rsplit", "splitlines", "partition"}:
            made, container = self.container_at(site, "list")
            self.add(container.any, self.make(kinds.TYPED, "str"))
            self.add(site.result, made)

    def _call_property_method(self, owner: int, name: str, site: CallSite) -> None:
        found = self.properties[self.first[owner]]
        if site.positional and site.positional[0] > 0 and name in {"getter", "setter"}:
            target = found.setter if name == "setter" else found.getter
            self.copy(site.positional[0], target)
        self.add(site.result, owner)

    def _call_container_method(  # noqa: C901
        self, value: int, container: Container, name: str, site: CallSite
    ) -> None:
        given = [var for var in site.positional if var > 0]
        first = given[0] if given else 0
        if name in {"append", "appendleft", "add"} and first:
            self.copy(first, container.appended if name == "append" else container.any)
        elif name == "insert" and given[1:]:
            self.copy(given[1], container.any)
        elif name == "extend" and first:
            self.subscribe(first, self._on_extend, container)
        elif name == "sort":
            key = next((var for keyword, var in site.keywords if keyword == "key"), 0)
            if key:
                inner = self.site(site.caller, site.line, container.all)
                self.call_var(key, inner)
        elif name in {"copy", "__iter__"}:
            self.add(site.result, value)
        elif container.kind == "dict":
            self._call_dict_method(container, name, given, site)
        elif name in {"pop", "popleft"}:
            self.copy(container.all, site.result)
        elif name in {"union", "intersection", "difference", "update"}:
            self.add(site.result, value)
            for var in given:
                self.spread(container, var)

    def _call_dict_method(  # noqa: C901, PLR0912
        self, container: Container, name: str, given: list[int], site: CallSite
    ) -> None:
        if name in {"get", "pop", "setdefault"} and site.positional:
            key = site.positional[0]
            if key > 0:
                self.get_at(container, key, site.result)
            else:
                self.get(container, None, site.result)
            if len(site.positional) > 1 and site.positional[1] > 0:
                self.copy(site.positional[1], site.result)
                if name == "setdefault" and key > 0:
                    self.put_at(container, key, site.positional[1])
        elif name == "popitem":
            self._pairs(container, site.result, site)
        elif name in {"values", "keys"}:
            made, view = self.container_at(site, "list")
            self.copy(container.all if name == "values" else container.keys, view.any)
            self.add(site.result, made)
        elif name == "items":
            made, view = self.container_at(site, "list")
            self._pairs(container, view.any, site)
            self.add(site.result, made)
        elif name == "update":
            for var in given:
                self.spread(container, var)
            for keyword, var in site.keywords:
                if keyword is not None:
                    self.put(container, keyword, var)
                elif var:
                    self.spread(container, var)

    def _pairs(self, container: Container, result: int, site: CallSite) -> None:
        if site.inner is None:
            site.inner = self.site(site.caller, site.line)
        made, pair = self.container_at(site.inner, "tuple")
        pair.length = 2
        self.copy(container.keys, self.element(pair, 0))
        self.copy(container.all, self.element(pair, 1))
        self.add(result, made)


_BUILTIN_TYPES: dict[str, type] = {
    "list": list,
    "deque": collections.deque,
    "tuple": tuple,
    "set": set,
    "dict": dict,
    "str": str,
    "int": int,
    "float": float,
    "bytes": bytes,
    "bool": bool,
}
