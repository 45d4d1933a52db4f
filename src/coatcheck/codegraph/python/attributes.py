"""What `value.name` is: modules, classes along their bases, instances, properties, super()."""

from __future__ import annotations

from abc import abstractmethod
from struct import Struct
from typing import Any

from coatcheck.codegraph.disk.queues import Rows
from coatcheck.codegraph.disk.tables import Table
from coatcheck.codegraph.python.archive import Module
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.containers import Containers
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.program import LinkedClass

# Where `value.attribute` goes, whoever the value is: (result, attribute's number, runner, line).
Load = tuple[int, int, int, int]
# A lookup is a number, and this in an array: class, receiver, result, attribute's number, runner,
# line, the class after which super() looks or -1; then the next of the same class and attribute.
_LOOKUP = Struct("7i")
_LOOKUP_SIZE = 8
_NEW_LOOKUP = Struct("8i").pack_into


class Attributes(Containers):
    """Knows attributes."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_linking = True
        self.put_off = Rows(self.disk, 5)
        self.not_found = Rows(self.disk, 1)
        self._lookups = self.disk.column()
        # By class and attribute the last lookup; the one after the last is the first.
        self._looked_up = Table(self.disk, 2)
        self._receivers_of = Table(self.disk, 3)
        self._written = Table(self.disk, 1)
        self._module_names = Table(self.disk, 2)

    def written(self, text: str) -> int:
        """Return a place that holds a text."""
        place, is_new = self._written.get_or_make((self.words[text],), self.place)
        if is_new:
            self.add(place, self.objects.make(ObjectKind.CONSTANT, text))
        return place

    @abstractmethod
    def call(self, value: int, site: Site) -> None:
        """Call a value (calls.py)."""

    @abstractmethod
    def on_call(self, value: int, data: tuple[int]) -> None:
        """Call a value at a site of which the number is known (calls.py)."""

    def call_place(self, place: int, site: Site) -> None:
        """Call whatever a place holds."""
        self.watch(place, self.on_call, (site.number,))

    # --- loading

    def on_load(self, value: int, load: Load) -> None:  # noqa: C901, PLR0912
        """Send `value.attribute` to the load's result."""
        result, number, _, _ = load
        attribute = self.words.at[number]
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is ObjectKind.MODULE:
            self.load_from_module(self.archive.modules[first], attribute, result)
        elif kind is ObjectKind.EXTERNAL or kind is ObjectKind.BUILTIN:
            member = self.member(kind, first, attribute)
            if member is not None:
                self.add(result, member)
        elif self.is_linking:
            # Which bases a class has is not known before the imports are.
            self.put_off.append(value, *load)
        elif kind is ObjectKind.INSTANCE:
            self._load_from_instance(value, self.classes[first], load)
        elif kind is ObjectKind.CLASS:
            cls = self.classes[first]
            if attribute == "__dict__":
                self.add(result, self.objects.make(ObjectKind.NAMESPACE, value))
            elif attribute == "__name__":
                self.add(result, self.objects.make(ObjectKind.TYPED, "str"))
            else:
                self.look_up(cls, value, load)
        elif kind is ObjectKind.SUPER:
            receiver = self.objects.second[value]
            of = self.classes[self.objects.first[receiver]]
            if self.classes[first] not in of.line_of_bases:
                # In a metaclass: what is called is the making of an instance.
                if attribute == "__call__" and self.objects.kind[receiver] is ObjectKind.CLASS:
                    maker = self.objects.make(ObjectKind.BUILTIN, "type.__call__")
                    self.add(result, self.objects.make(ObjectKind.BOUND, maker, receiver))
                return
            self.look_up(of, receiver, load, first)
        elif kind in _WITH_METHODS:
            self.add(result, self.objects.make(ObjectKind.METHOD_OF, value, attribute))
        elif kind is ObjectKind.BOUND and attribute == "__self__":
            self.add(result, self.objects.second[value])
        elif kind is ObjectKind.BOUND and attribute == "__func__":
            self.add(result, first)
        elif kind is ObjectKind.PARTIAL and attribute == "func":
            self.copy(self.partials[first].function, result)
        else:
            self.copy(self.field(value, attribute), result)

    def load_from_module(self, module: Module, attribute: str, result: int) -> None:
        """Send a module's attribute to a place."""
        self.copy(self.module_name(module, attribute), result)

    def module_name(self, module: Module, attribute: str) -> int:
        """Return the place of a module's attribute, wherever it has it from."""
        key = (module.index, self.words[attribute])
        place, is_new = self._module_names.get_or_make(key, self.place)
        if is_new:
            self._find_in_module(module, attribute, place, set())
        return place

    def _find_in_module(self, module: Module, attribute: str, result: int, seen: set[int]) -> bool:
        """Look among a module's names, those it takes with `*`, and its submodules."""
        if module.index in seen:
            return False
        seen.add(module.index)
        own = self.export(module, attribute)
        if own is not None:
            self.copy(own, result)
            # A module that imports itself under its own name is all that it says.
            return True
        outside = [star for star in module.stars if isinstance(star, str)]
        for star in module.stars:
            if isinstance(star, str) or not _is_public(star, attribute):
                continue
            if self._find_in_module(star, attribute, result, seen):
                return True
        submodule = self.archive.submodule(module, attribute)
        if submodule is not None:
            self.add(result, self.objects.make(ObjectKind.MODULE, submodule.index))
            return True
        if attribute == "__dict__":
            value = self.objects.make(ObjectKind.MODULE, module.index)
            self.add(result, self.objects.make(ObjectKind.NAMESPACE, value))
            return True
        if len(outside) == 1 and not attribute.startswith("_"):
            self.add(result, self.external(f"{outside[0]}.{attribute}"))
            return True
        if module.summary is None:
            # A folder of that name is not the whole of what may be called so.
            self.add(result, self.external(f"{module.name}.{attribute}"))
            return True
        return False

    def _load_from_instance(self, value: int, cls: LinkedClass, load: Load) -> None:
        result, number, _, _ = load
        attribute = self.words.at[number]
        if attribute == "__class__":
            self.add(result, self.objects.make(ObjectKind.CLASS, cls.index))
            return
        if attribute == "__dict__":
            self.add(result, self.objects.make(ObjectKind.NAMESPACE, value))
            return
        self.copy(self.field(value, attribute), result)
        self.look_up(cls, value, load)

    # --- classes

    def look_up(self, cls: LinkedClass, receiver: int, load: Load, after: int = -1) -> None:
        """Find an attribute along the bases, now and whenever a class gets it later."""
        attribute = load[1]
        start = self._lookups.add(_LOOKUP_SIZE)
        lookups, lookup = self._lookups.numbers, start // _LOOKUP_SIZE
        last = self._looked_up.put((cls.index, attribute), lookup)
        following = lookup
        if last is None:
            cls.asked = self.of_classes.append(cls.asked, attribute)
        else:
            following = lookups[last * _LOOKUP_SIZE + 7]
            lookups[last * _LOOKUP_SIZE + 7] = lookup
        _NEW_LOOKUP(lookups, 4 * start, cls.index, receiver, *load, after, following)
        self._answer(lookup, cls, load[0], attribute, after)

    def _looked_for(self, lookup: int) -> tuple[int, ...]:
        return _LOOKUP.unpack_from(self._lookups.numbers, 4 * _LOOKUP_SIZE * lookup)

    def _answer(self, lookup: int, cls: LinkedClass, result: int, number: int, after: int) -> None:
        attribute = self.words.at[number]
        place = self.find(cls, attribute, self.classes[after] if after >= 0 else None)
        if place is not None:
            self.watch(place, self._on_found, (lookup,))
        elif attribute == "__new__":
            self.add(result, self.objects.make(ObjectKind.BUILTIN, "object.__new__"))
        else:
            self.not_found.append(lookup)

    def class_attribute(self, cls: LinkedClass, attribute: str) -> int:
        """Return the place of a class's own attribute; whoever looked for it hears of it."""
        place = self.own_attribute(cls, attribute)
        if place is None:
            place = self.place()
            self.set_attribute(cls, attribute, place)
            self.answer_again(cls, attribute)
        return place

    def answer_again(self, cls: LinkedClass, attribute: str | None = None) -> None:
        """Look again for what was looked for in a class and those that inherit from it."""
        seen: set[int] = set()
        waiting = [cls]
        while waiting:
            one = waiting.pop()
            if one.index in seen:
                continue
            seen.add(one.index)
            waiting.extend(one.children)
            every = attribute is None
            for name in self.of_classes.of(one.asked) if every else (self.words[attribute],):
                last = self._looked_up.get(one.index, name)
                if last is not None:
                    self._answer_all(last)

    def _answer_all(self, last: int) -> None:
        lookup = -1
        while lookup != last:
            before = last if lookup < 0 else lookup
            lookup = self._lookups.numbers[before * _LOOKUP_SIZE + 7]
            cls, _, result, number, _, _, after = self._looked_for(lookup)
            self._answer(lookup, self.classes[cls], result, number, after)

    def _on_found(self, value: int, data: tuple[int]) -> None:
        """Bind what a class holds to the receiver, as the descriptors do."""
        of, receiver, result, _, runner, line, _ = self._looked_for(data[0])
        cls = self.classes[of]
        kind = self.objects.kind[value]
        through_class = self.objects.kind[receiver] is ObjectKind.CLASS
        first = self.objects.first[value]
        if kind is ObjectKind.FUNCTION or kind is ObjectKind.MANAGER_MAKER:
            if through_class:
                self.add(result, value)
            else:
                self.add(result, self.objects.make(ObjectKind.BOUND, value, receiver))
        elif kind is ObjectKind.STATIC:
            self.add(result, first)
        elif kind is ObjectKind.CLASS_METHOD:
            of = self.objects.make(ObjectKind.CLASS, self.objects.first[receiver])
            self.add(result, self.objects.make(ObjectKind.BOUND, first, of))
        elif kind is ObjectKind.PROPERTY and not through_class:
            self._get_property(first, receiver, result, runner, line)
        elif kind is ObjectKind.INSTANCE and self.find(self.classes[first], "__get__") is not None:
            receivers, _ = self._receivers("get", result, value, receiver)
            site = self.implied("__get__", runner, line, receivers, result=result)
            self.call_method(value, "__get__", site)
        elif cls.is_enum and through_class and kind is not ObjectKind.CLASS:
            self.add(result, self.instance(cls))
        else:
            self.add(result, value)

    def _receivers(self, what: str, at: int, of: int, receiver: int) -> tuple[int, bool]:
        """Return the place of the receivers of one property in one place of the code.

        And whether it is new.
        """
        place, is_new = self._receivers_of.get_or_make((self.words[what], at, of), self.place)
        self.add(place, receiver)
        return place, is_new

    def _get_property(self, index: int, receiver: int, result: int, runner: int, line: int) -> None:
        receivers, is_new = self._receivers("property", result, index, receiver)
        if is_new:
            site = self.site(runner, line, receivers, result=result)
            self.call_place(self.properties[index].getter, site)

    def _set_property(self, index: int, receiver: int, source: int, runner: int, line: int) -> None:
        receivers, is_new = self._receivers("setter", source, index, receiver)
        if is_new:
            site = self.site(runner, line, receivers, source)
            self.call_place(self.properties[index].setter, site)

    def call_method(self, value: int, name: str, site: Site) -> bool:
        """Call a special method of an instance; tell whether its class has it."""
        cls = self.classes[self.objects.first[value]]
        place = self.find(cls, name)
        if place is None:
            return False
        if self.sites.applies_method(site.number, value, name):
            self.watch(place, self._on_method, (value, site.number))
        return True

    def _on_method(self, method: int, data: tuple[int, int]) -> None:
        value, site = data[0], self.sites.at(data[1])
        kind = self.objects.kind[method]
        first = self.objects.first[method]
        if kind is ObjectKind.FUNCTION or kind is ObjectKind.MANAGER_MAKER:
            self.call(self.objects.make(ObjectKind.BOUND, method, value), site)
        elif kind is ObjectKind.CLASS_METHOD:
            cls = self.objects.make(ObjectKind.CLASS, self.objects.first[value])
            self.call(self.objects.make(ObjectKind.BOUND, first, cls), site)
        else:
            self.call(method, site)

    # --- storing

    def on_store(self, value: int, data: tuple[int, int, int, int]) -> None:
        """Store a place's values in `value.attribute`; data has the attribute's number."""
        number, source, runner, line = data
        attribute = self.words.at[number]
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is ObjectKind.INSTANCE:
            cls = self.classes[first]
            place = self.find(cls, attribute)
            if place is not None:
                self.watch(place, self._on_store_through, (value, source, runner, line))
            self.copy(source, self.field(value, attribute))
            if self.find(cls, "__setattr__") is not None:
                name = self.written(attribute)
                site = self.implied(f"set {source}", runner, line, name, source, result=name)
                self.call_method(value, "__setattr__", site)
        elif kind is ObjectKind.CLASS:
            self.copy(source, self.class_attribute(self.classes[first], attribute))
        elif kind is ObjectKind.MODULE:
            module = self.archive.modules[first]
            target = self.export(module, attribute)
            self.copy(source, self.module_name(module, attribute) if target is None else target)
        elif kind is not ObjectKind.EXTERNAL:
            self.copy(source, self.field(value, attribute))

    def _on_store_through(self, value: int, data: tuple[int, int, int, int]) -> None:
        receiver, source, runner, line = data
        kind = self.objects.kind[value]
        if kind is ObjectKind.PROPERTY:
            self._set_property(self.objects.first[value], receiver, source, runner, line)
        elif kind is ObjectKind.INSTANCE:
            receivers, _ = self._receivers("set", source, value, receiver)
            site = self.implied("__set__", runner, line, receivers, source, result=receivers)
            self.call_method(value, "__set__", site)

    # --- what was found nowhere

    def settle_attributes(self) -> bool:
        """Look outside the archive for what no class in it has; tell whether that helped."""
        waiting, self.not_found = self.not_found, Rows(self.disk, 1)
        changed = False
        for (lookup,) in waiting:
            self.breathe()
            of, receiver, result, number, runner, line, after = self._looked_for(lookup)
            cls, attribute = self.classes[of], self.words.at[number]
            start = self.classes[after] if after >= 0 else None
            if not self.is_empty(result) or self.find(cls, attribute, start) is not None:
                continue
            getter = self.find(cls, "__getattr__") if start is None else None
            if getter is not None and not attribute.startswith("__"):
                if self.objects.kind[receiver] is ObjectKind.INSTANCE:
                    name = self.written(attribute)
                    site = self.implied("__getattr__", runner, line, name, result=result)
                    changed = self.call_method(receiver, "__getattr__", site) or changed
            elif len(cls.all_outside) == 1:
                changed = True
                self.add(result, self.outside_value(f"{cls.all_outside[0]}.{attribute}"))
        return changed

    def outside_value(self, path: str) -> int:
        """Return a value outside the archive: a builtin's path begins with `<builtin>.`."""
        if path.startswith("<builtin>."):
            return self.objects.make(ObjectKind.BUILTIN, path.removeprefix("<builtin>."))
        return self.external(path)


_WITH_METHODS = {
    ObjectKind.CONTAINER,
    ObjectKind.CONSTANT,
    ObjectKind.TYPED,
    ObjectKind.PROPERTY,
    ObjectKind.GENERATOR,
    ObjectKind.NAMESPACE,
}


def _is_public(module: Module, name: str) -> bool:
    if module.summary is None:
        return True
    if module.public is not None:
        return name in module.public
    return not name.startswith("_")
