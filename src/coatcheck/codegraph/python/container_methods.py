"""The methods of builtin types: what `append`, `items` or `pop` do to what a container holds."""

from __future__ import annotations

import collections

from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.containers import ContainerValue
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.operations import Operations

_TEXT_TO_TEXT = {
    "join", "strip", "lstrip", "rstrip", "lower", "upper", "title", "format", "replace", "encode",
    "decode", "capitalize", "center", "ljust", "rjust", "zfill", "casefold", "removeprefix",
    "removesuffix", "expandtabs", "swapcase", "translate",
}  # fmt: skip


class ContainerMethods(Operations):
    """Knows the methods that builtin types bring with them."""

    def call_method_of(self, value: int, site: Site) -> None:
        """Call a method of a container, a text, a generator or a property."""
        owner, name = self.objects.first[value], self.objects.second[value]
        kind = self.objects.kind[owner]
        if kind is ObjectKind.PROPERTY:
            self._call_of_property(owner, name, site)
        elif kind is ObjectKind.GENERATOR:
            if name in {"send", "__next__"}:
                self.iterate(owner, site.result, site.runner, site.line)
        elif kind is ObjectKind.CONTAINER:
            container = self.containers[self.objects.first[owner]]
            if hasattr(_BUILTIN_TYPES.get(container.kind), name):
                outside = "collections.deque" if container.kind == "deque" else None
                shown = outside or f"<builtin>.{container.kind}"
                self.edge(site, f"{shown}.{name}")
                self._call_of_container(owner, container, name, site)
        elif kind is ObjectKind.NAMESPACE:
            if name == "get" and site.positional and site.positional[0] > 0:
                data = (self.objects.first[owner], site.result, site.runner, site.line)
                self.watch(site.positional[0], self.on_attribute_name, data)
        else:
            type_name = self._type_name(owner)
            if hasattr(_BUILTIN_TYPES.get(type_name), name):
                self.edge(site, f"<builtin>.{type_name}.{name}")
                self._call_of_text(name, site)

    def _type_name(self, value: int) -> str:
        first = self.objects.first[value]
        if self.objects.kind[value] is ObjectKind.TYPED:
            return str(first)
        return "str" if isinstance(first, str) else "int"

    def _call_of_text(self, name: str, site: Site) -> None:
        if name in _TEXT_TO_TEXT:
            self.add(site.result, self.objects.make(ObjectKind.TYPED, "str"))
        elif name in {"split", "rsplit", "splitlines", "partition"}:
            made, container = self.made_by(site, "list")
            self.add(container.any, self.objects.make(ObjectKind.TYPED, "str"))
            self.add(site.result, made)

    def _call_of_property(self, owner: int, name: str, site: Site) -> None:
        found = self.properties[self.objects.first[owner]]
        if site.positional and site.positional[0] > 0 and name in {"getter", "setter"}:
            target = found.setter if name == "setter" else found.getter
            self.copy(site.positional[0], target)
        self.add(site.result, owner)

    def _call_of_container(  # noqa: C901
        self, value: int, container: ContainerValue, name: str, site: Site
    ) -> None:
        given = [place for place in site.positional if place > 0]
        first = given[0] if given else 0
        if name in {"append", "appendleft", "add"} and first:
            self.copy(first, container.appended if name == "append" else container.any)
        elif name == "insert" and given[1:]:
            self.copy(given[1], container.any)
        elif name == "extend" and first:
            self.watch(first, self._on_extend, (container.number,))
        elif name == "sort":
            key = next((place for keyword, place in site.keywords if keyword == "key"), 0)
            if key:
                inner = self.site(site.runner, site.line, container.all)
                self.call_place(key, inner)
        elif name in {"copy", "__iter__"}:
            self.add(site.result, value)
        elif container.kind == "dict":
            self._call_of_dict(container, name, given, site)
        elif name in {"pop", "popleft"}:
            self.copy(container.all, site.result)
        elif name in {"union", "intersection", "difference", "update"}:
            self.add(site.result, value)
            for place in given:
                self.spread(container, place)

    def _call_of_dict(  # noqa: C901, PLR0912
        self, container: ContainerValue, name: str, given: list[int], site: Site
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
            made, view = self.made_by(site, "list")
            self.copy(container.all if name == "values" else container.keys, view.any)
            self.add(site.result, made)
        elif name == "items":
            made, view = self.made_by(site, "list")
            self._pairs(container, view.any, site)
            self.add(site.result, made)
        elif name == "update":
            for place in given:
                self.spread(container, place)
            for keyword, place in site.keywords:
                if keyword is not None:
                    self.put(container, keyword, place)
                elif place:
                    self.spread(container, place)

    def _pairs(self, container: ContainerValue, result: int, site: Site) -> None:
        number = self.sites.inner.get(site.number)
        inner = self.site(site.runner, site.line) if number is None else self.sites.at(number)
        self.sites.inner.put((site.number,), inner.number)
        made, pair = self.made_by(inner, "tuple")
        self.set_length(pair, 2)
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
