"""Attribute loads and stores: modules, classes along their MRO, instances, properties, super()."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.archive import Module
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.containers import Containers
from coatcheck.codegraph.points_to.program import LinkedClass, Lookup

# A load of an attribute: the variable of the result, the attribute, the caller, the line.
Load = tuple[int, str, int, int]
# A store to an attribute: the attribute, the variable that is stored, the caller, the line.
Store = tuple[str, int, int, int]


class Attributes(Containers):
    """Attributes of values."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        # Base classes are unknown until imports are resolved; loads from classes wait until then.
        self.is_linking = True
        self.deferred_loads: list[tuple[int, Load]] = []
        self.unresolved_lookups: list[Lookup] = []
        self._receivers_of: dict[tuple[str, int, int], int] = {}
        self._literals: dict[str, int] = {}
        self._module_names: dict[tuple[int, str], int] = {}

    def literal_var(self, text: str) -> int:
        """Return a variable that holds a text."""
        var = self._literals.get(text)
        if var is None:
            var = self._literals[text] = self.new_var()
            self.add(var, self.make(kinds.CONSTANT, text))
        return var

    @abstractmethod
    def call(self, value: int, site: CallSite) -> None:
        """Call a value (calls.py)."""

    def call_var(self, var: int, site: CallSite) -> None:
        """Call every value of a variable."""
        self.subscribe(var, self.call, site)

    # --- loads

    def on_load(self, value: int, load: Load) -> None:  # noqa: C901, PLR0912
        """Load an attribute of a value."""
        result, attribute, _, _ = load
        kind = self.kind[value]
        first = self.first[value]
        if kind == kinds.MODULE:
            self.load_from_module(self.archive.modules[first], attribute, result)
        elif kind == kinds.EXTERNAL or kind == kinds.BUILTIN:
            member = self.member(kind, first, attribute)
            if member is not None:
                self.add(result, member)
        elif self.is_linking:
            self.deferred_loads.append((value, load))
        elif kind == kinds.INSTANCE:
            self._load_from_instance(value, self.classes[first], load)
        elif kind == kinds.CLASS:
            if attribute == "__dict__":
                self.add(result, self.make(kinds.NAMESPACE, value))
            elif attribute == "__name__":
                self.add(result, self.make(kinds.TYPED, "str"))
            else:
                self.look_up(self.classes[first], value, load)
        elif kind == kinds.SUPER:
            self._load_from_super(self.classes[first], self.second[value], load)
        elif kind in _WITH_METHODS:
            self.add(result, self.make(kinds.METHOD_OF, value, attribute))
        elif kind == kinds.BOUND and attribute == "__self__":
            self.add(result, self.second[value])
        elif kind == kinds.BOUND and attribute == "__func__":
            self.add(result, first)
        elif kind == kinds.PARTIAL and attribute == "func":
            self.copy(self.partials[first].function, result)
        else:
            self.copy(self.field(value, attribute), result)

    def _load_from_super(self, cls: LinkedClass, receiver: int, load: Load) -> None:
        of = self.classes[self.first[receiver]]
        if cls in of.mro:
            self.look_up(of, receiver, load, cls)
        elif load[1] == "__call__" and self.kind[receiver] == kinds.CLASS:
            # In a metaclass: `super().__call__` creates an instance.
            maker = self.make(kinds.BUILTIN, "type.__call__")
            self.add(load[0], self.make(kinds.BOUND, maker, receiver))

    def load_from_module(self, module: Module, attribute: str, result: int) -> None:
        """Load a module's attribute."""
        self.copy(self.module_name(module, attribute), result)

    def module_name(self, module: Module, attribute: str) -> int:
        """Return the variable of a module's attribute, defined there or imported."""
        key = (module.index, attribute)
        var = self._module_names.get(key)
        if var is None:
            var = self._module_names[key] = self.new_var()
            self._find_in_module(module, attribute, var, set())
        return var

    def _find_in_module(self, module: Module, attribute: str, result: int, seen: set[int]) -> bool:
        """Search a module's names, its `*` imports and its submodules."""
        if module.index in seen:
            return False
        seen.add(module.index)
        own = module.exports.get(attribute)
        if own is not None:
            # A module that imports itself by its own name has nothing more to offer.
            self.copy(own, result)
            return True
        external = [star for star in module.stars if isinstance(star, str)]
        for star in module.stars:
            if isinstance(star, str) or not _is_public(star, attribute):
                continue
            if self._find_in_module(star, attribute, result, seen):
                return True
        submodule = self.archive.submodule(module, attribute)
        if submodule is not None:
            self.add(result, self.make(kinds.MODULE, submodule.index))
        elif attribute == "__dict__":
            value = self.make(kinds.MODULE, module.index)
            self.add(result, self.make(kinds.NAMESPACE, value))
        elif len(external) == 1 and not attribute.startswith("_"):
            self.add(result, self.external(f"{external[0]}.{attribute}"))
        elif module.summary is None:
            # A namespace package may have further parts outside the archive.
            self.add(result, self.external(f"{module.name}.{attribute}"))
        else:
            return False
        return True

    def _load_from_instance(self, value: int, cls: LinkedClass, load: Load) -> None:
        result, attribute, _, _ = load
        if attribute == "__class__":
            self.add(result, self.make(kinds.CLASS, cls.index))
        elif attribute == "__dict__":
            self.add(result, self.make(kinds.NAMESPACE, value))
        else:
            self.copy(self.field(value, attribute), result)
            self.look_up(cls, value, load)

    # --- lookups along the bases

    def look_up(
        self, cls: LinkedClass, receiver: int, load: Load, after: LinkedClass | None = None
    ) -> None:
        """Find an attribute along the bases, now and whenever a class gains it later."""
        result, attribute, caller, line = load
        lookup = (cls, receiver, result, attribute, caller, line, after)
        known = cls.lookups.get(attribute)
        if known is None:
            cls.lookups[attribute] = [lookup]
        else:
            known.append(lookup)
        self._resolve_lookup(lookup)

    def _resolve_lookup(self, lookup: Lookup) -> None:
        cls, _, result, attribute, _, _, after = lookup
        var = cls.find(attribute, after)
        if var is not None:
            self.subscribe(var, self._on_found, lookup)
        elif attribute == "__new__":
            self.add(result, self.make(kinds.BUILTIN, "object.__new__"))
        else:
            self.unresolved_lookups.append(lookup)

    def class_attribute(self, cls: LinkedClass, attribute: str) -> int:
        """Return the variable of a class's own attribute; a new one resolves earlier lookups."""
        var = cls.attributes.get(attribute)
        if var is None:
            var = cls.attributes[attribute] = self.new_var()
            self.retry_lookups(cls, attribute)
        return var

    def retry_lookups(self, cls: LinkedClass, attribute: str | None = None) -> None:
        """Repeat the lookups in a class and its descendants, of one attribute or of all."""
        seen: set[int] = set()
        waiting = [cls]
        while waiting:
            one = waiting.pop()
            if one.index in seen:
                continue
            seen.add(one.index)
            waiting.extend(one.children)
            for name in tuple(one.lookups) if attribute is None else (attribute,):
                for lookup in tuple(one.lookups.get(name, ())):
                    self._resolve_lookup(lookup)

    def _on_found(self, value: int, lookup: Lookup) -> None:
        """Bind an attribute of a class to the receiver, as descriptors do."""
        cls, receiver, result, _, caller, line, _ = lookup
        kind = self.kind[value]
        first = self.first[value]
        through_class = self.kind[receiver] == kinds.CLASS
        if kind == kinds.FUNCTION or kind == kinds.MANAGER_FACTORY:
            bound = value if through_class else self.make(kinds.BOUND, value, receiver)
            self.add(result, bound)
        elif kind == kinds.STATIC:
            self.add(result, first)
        elif kind == kinds.CLASS_METHOD:
            of = self.make(kinds.CLASS, self.first[receiver])
            self.add(result, self.make(kinds.BOUND, first, of))
        elif kind == kinds.PROPERTY and not through_class:
            self._get_property(first, receiver, result, caller, line)
        elif kind == kinds.INSTANCE and self.classes[first].find("__get__") is not None:
            receivers, _ = self._receivers("get", result, value, receiver)
            site = self.implied("__get__", caller, line, receivers, result=result)
            self.call_method(value, "__get__", site)
        elif cls.is_enum and through_class and kind != kinds.CLASS:
            self.add(result, self.instance(cls))
        else:
            self.add(result, value)

    def _receivers(self, what: str, at: int, of: int, receiver: int) -> tuple[int, bool]:
        """Return the variable of a property's receivers at one expression, and if it is new."""
        key = (what, at, of)
        var = self._receivers_of.get(key)
        is_new = var is None
        if var is None:
            var = self._receivers_of[key] = self.new_var()
        self.add(var, receiver)
        return var, is_new

    def _get_property(self, index: int, receiver: int, result: int, caller: int, line: int) -> None:
        receivers, is_new = self._receivers("property", result, index, receiver)
        if is_new:
            site = self.site(caller, line, receivers, result=result)
            self.call_var(self.properties[index].getter, site)

    def _set_property(self, index: int, receiver: int, source: int, caller: int, line: int) -> None:
        receivers, is_new = self._receivers("setter", source, index, receiver)
        if is_new:
            site = self.site(caller, line, receivers, source)
            self.call_var(self.properties[index].setter, site)

    def call_method(self, value: int, name: str, site: CallSite) -> bool:
        """Call a special method of an instance; tell whether its class has the method."""
        var = self.classes[self.first[value]].find(name)
        if var is None:
            return False
        if site.mark_called((value, name)):
            self.subscribe(var, self._on_method, (value, site))
        return True

    def _on_method(self, method: int, data: tuple[int, CallSite]) -> None:
        value, site = data
        kind = self.kind[method]
        if kind == kinds.FUNCTION or kind == kinds.MANAGER_FACTORY:
            self.call(self.make(kinds.BOUND, method, value), site)
        elif kind == kinds.CLASS_METHOD:
            cls = self.make(kinds.CLASS, self.first[value])
            self.call(self.make(kinds.BOUND, self.first[method], cls), site)
        else:
            self.call(method, site)

    # --- stores

    def on_store(self, value: int, store: Store) -> None:
        """Store a variable in an attribute of a value."""
        attribute, source, caller, line = store
        kind = self.kind[value]
        if kind == kinds.INSTANCE:
            cls = self.classes[self.first[value]]
            var = cls.find(attribute)
            if var is not None:
                self.subscribe(var, self._on_descriptor_store, (value, source, caller, line))
            self.copy(source, self.field(value, attribute))
            if cls.find("__setattr__") is not None:
                name = self.literal_var(attribute)
                site = self.implied(f"set {source}", caller, line, name, source, result=name)
                self.call_method(value, "__setattr__", site)
        elif kind == kinds.CLASS:
            self.copy(source, self.class_attribute(self.classes[self.first[value]], attribute))
        elif kind == kinds.MODULE:
            module = self.archive.modules[self.first[value]]
            target = module.exports.get(attribute)
            self.copy(source, self.module_name(module, attribute) if target is None else target)
        elif kind != kinds.EXTERNAL:
            self.copy(source, self.field(value, attribute))

    def _on_descriptor_store(self, value: int, data: tuple[int, int, int, int]) -> None:
        receiver, source, caller, line = data
        kind = self.kind[value]
        if kind == kinds.PROPERTY:
            self._set_property(self.first[value], receiver, source, caller, line)
        elif kind == kinds.INSTANCE:
            receivers, _ = self._receivers("set", source, value, receiver)
            site = self.implied("__set__", caller, line, receivers, source, result=receivers)
            self.call_method(value, "__set__", site)

    # --- unresolved lookups

    def apply_attribute_fallbacks(self) -> bool:
        """Look outside the archive for attributes no class in it has; tell whether that helped."""
        waiting, self.unresolved_lookups = self.unresolved_lookups, []
        changed = False
        for cls, receiver, result, attribute, caller, line, after in waiting:
            if not self.is_empty(result) or cls.find(attribute, after) is not None:
                continue
            getter = cls.find("__getattr__") if after is None else None
            if getter is not None and not attribute.startswith("__"):
                if self.kind[receiver] == kinds.INSTANCE:
                    name = self.literal_var(attribute)
                    site = self.implied("__getattr__", caller, line, name, result=result)
                    changed = self.call_method(receiver, "__getattr__", site) or changed
            elif len(cls.all_external_bases) == 1:
                changed = True
                self.add(result, self._external_value(f"{cls.all_external_bases[0]}.{attribute}"))
        return changed

    def _external_value(self, path: str) -> int:
        if path.startswith("<builtin>."):
            return self.make(kinds.BUILTIN, path.removeprefix("<builtin>."))
        return self.external(path)


_WITH_METHODS = {
    kinds.CONTAINER, kinds.CONSTANT, kinds.TYPED, kinds.PROPERTY, kinds.GENERATOR, kinds.NAMESPACE,
}  # fmt: skip


def _is_public(module: Module, name: str) -> bool:
    if module.summary is None:
        return True
    if module.public is not None:
        return name in module.public
    return not name.startswith("_")
