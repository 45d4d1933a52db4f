"""What a call does: who is called, where the arguments go, what comes back."""

from __future__ import annotations

from abc import abstractmethod

from coatcheck.codegraph.python.attributes import Attributes
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.containers import ContainerValue
from coatcheck.codegraph.python.functions import LinkedFunction
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.program import LinkedClass

DEEPEST_PARTIAL = 5


class CallResolver(Attributes):
    """Knows calls."""

    # Whether a constructor that is not written is made from the class, as in most languages.
    makes_all_constructors = False

    @abstractmethod
    def call_outside(self, value: int, site: Site) -> None:
        """Call something that is not of the archive (models.py)."""

    def call(self, value: int, site: Site) -> None:
        """Call a value."""
        if self.sites.applies(site.number, value):
            self._call(value, site)

    def on_call(self, value: int, data: tuple[int]) -> None:
        """Call a value at a site of which the number is known."""
        number = data[0]
        if self.sites.applies(number, value):
            self._call(value, self.sites.at(number))

    def _call(self, value: int, site: Site) -> None:
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is ObjectKind.FUNCTION:
            self.call_function(self.functions[first], None, site)
        elif kind is ObjectKind.BOUND:
            self._call_bound(first, self.objects.second[value], site)
        elif kind is ObjectKind.CLASS:
            self._construct(self.classes[first], site)
        elif kind is ObjectKind.INSTANCE:
            self.call_method(value, "__call__", site)
        elif kind is ObjectKind.PARTIAL:
            depth = self.sites.depth.get(site.number) or 0
            if depth > DEEPEST_PARTIAL:
                return
            partial = self.partials[first]
            merged = self.sites.new(
                site.result,
                partial.positional + site.positional,
                partial.keywords + site.keywords,
                site.runner,
                site.line,
                self.sites.callee(site.number),
            )
            self.sites.depth.put((merged.number,), depth + 1)
            self.call_place(partial.function, merged)
        elif kind is ObjectKind.MANAGER_MAKER:
            self._call_manager_maker(first, None, site)
        elif kind is ObjectKind.STATIC:
            self.call(first, site)
        else:
            self.call_outside(value, site)

    def _call_bound(self, value: int, receiver: int, site: Site) -> None:
        kind = self.objects.kind[value]
        if kind is ObjectKind.FUNCTION:
            self.call_function(self.functions[self.objects.first[value]], receiver, site)
        elif kind is ObjectKind.MANAGER_MAKER:
            self._call_manager_maker(self.objects.first[value], receiver, site)
        else:
            self.call(value, site)
            if kind is ObjectKind.BUILTIN and self.objects.first[value] == "type.__call__":
                self._make_instance(self.classes[self.objects.first[receiver]], site)

    def _call_manager_maker(self, function: int, receiver: int | None, site: Site) -> None:
        if self.objects.kind[function] is ObjectKind.FUNCTION:
            linked = self.functions[self.objects.first[function]]
            without = self.sites.like(site, self.place())
            self.call_function(linked, receiver, without)
            self.add(site.result, self.objects.make(ObjectKind.MANAGER, linked.index))

    # --- functions

    def call_function(self, function: LinkedFunction, receiver: int | None, site: Site) -> None:
        """Call a function, with the receiver as its first argument if there is one."""
        self.edge(site, function.definition)
        arguments = self._bind(function, receiver, site)
        if function.yields:
            self.add(site.result, self.objects.make(ObjectKind.GENERATOR, function.index))
            return
        if function.is_async:
            self.add(site.result, self.objects.make(ObjectKind.COROUTINE, function.index))
            return
        self.copy(function.result, site.result)
        for index in function.passes:
            name, parameter = function.positional[index]
            if index == 0 and receiver is not None:
                self.add(site.result, receiver)
            else:
                self.copy(arguments.get(name, parameter), site.result)

    def _bind(self, function: LinkedFunction, receiver: int | None, site: Site) -> dict[str, int]:  # noqa: C901, PLR0912
        """Send the arguments to the parameters; return those that are known one by one."""
        arguments: dict[str, int] = {}
        index = 0
        is_known = True
        if receiver is not None:
            index = 1
            if function.positional:
                self.add(function.positional[0][1], receiver)
            elif function.rest:
                self.add(self._rest(function, 0), receiver)
        for place in site.positional:
            if place < 0:
                is_known = False
                self.watch(-place, self._on_star, (function.index, index, site.number))
                continue
            if index < len(function.positional):
                name, parameter = function.positional[index]
                arguments[name] = place
                if place:
                    self.copy(place, parameter)
            elif function.rest and place:
                self.copy(place, self._rest(function, index - len(function.positional)))
            index += 1
        for keyword, place in site.keywords:
            if keyword is None:
                is_known = False
                if place:
                    self.watch(place, self._on_double_star, (function.index,))
            elif keyword in function.by_name:
                arguments[keyword] = place
                if place:
                    self.copy(place, function.by_name[keyword])
            elif function.keywords and place:
                container = self.containers[function.keywords_container]
                self.put(container, keyword, place)
        for name, default in function.defaults:
            if name not in arguments and default:
                if is_known:
                    arguments[name] = default
                self.copy(default, function.by_name[name])
        if function.keeps:
            self._keep(function, receiver, arguments, site)
        return arguments

    def _keep(
        self,
        function: LinkedFunction,
        receiver: int | None,
        arguments: dict[str, int],
        site: Site,
    ) -> None:
        """Store the arguments of this call in this receiver, not those of all in all."""
        # Which of its lines it is, is not kept.
        runner, line = function.definition, function.line
        for attribute, name in function.keeps:
            source = arguments.get(name, function.by_name[name])
            if not source:
                source = function.by_name[name]
            data = (self.words[attribute], source, runner, line)
            if receiver is not None:
                self.on_store(receiver, data)
            elif site.positional and site.positional[0] > 0:
                self.watch(site.positional[0], self.on_store, data)

    def _rest(self, function: LinkedFunction, index: int) -> int:
        return self.element(self.containers[function.rest_container], index)

    def _on_star(self, value: int, data: tuple[int, int, int]) -> None:
        """Spread `*value` over the parameters from an index on."""
        function, start, site = self.functions[data[0]], data[1], self.sites.at(data[2])
        container = self.container_of(value)
        parameters = function.positional[start:]
        rest = self.containers[function.rest_container] if function.rest else None
        if container is None or container.kind in {"dict", "set"}:
            every = self.place()
            self.iterate(value, every, site.runner, site.line)
            for _, parameter in parameters:
                self.copy(every, parameter)
            if rest is not None:
                self.copy(every, rest.any)
            return
        length = self.length(container)
        for offset, (_, parameter) in enumerate(parameters):
            if length is None or offset < length or container.kind == "list":
                self.get(container, offset, parameter)
        if rest is not None:
            for offset in range(length or 0):
                if offset >= len(parameters):
                    self.get(container, offset, self.element(rest, offset - len(parameters)))
            if length is None:
                self._pass_rest(container, len(parameters), rest)
            self.copy(container.any, rest.any)
            self.copy(container.appended, rest.any)

    def _pass_rest(self, source: ContainerValue, skipped: int, target: ContainerValue) -> None:
        """Hand `*args` on: elements keep their places in the order."""
        for key in range(8):
            self.copy(self.element(source, skipped + key), self.element(target, key))

    def _on_double_star(self, value: int, data: tuple[int]) -> None:
        function = self.functions[data[0]]
        container = self.container_of(value)
        if container is None or container.kind != "dict":
            return
        for name, parameter in function.by_name.items():
            self.get(container, name, parameter)
        if function.keywords:
            rest = self.containers[function.keywords_container]
            for key, place in self.elements(container):
                if key not in function.by_name:
                    self.copy(place, self.element(rest, key))
            self.copy(container.any, rest.any)

    # --- classes

    def _construct(self, cls: LinkedClass, site: Site) -> None:
        if self._has_own_call(cls, site):
            self.add(site.result, self.instance(cls))
            return
        self._make_instance(cls, site)

    def _has_own_call(self, cls: LinkedClass, site: Site) -> bool:
        """Leave the making to a metaclass that has a say in it."""
        for one in cls.line_of_bases:
            for value in self.held(one.metaclass):
                if self.objects.kind[value] is ObjectKind.CLASS:
                    place = self.find(self.classes[self.objects.first[value]], "__call__")
                    if place is not None:
                        self.watch(place, self._on_metaclass_call, (cls.index, site.number))
                        return True
        return False

    def _make_instance(self, cls: LinkedClass, site: Site) -> None:
        instance = self.instance(cls)
        if cls.is_enum:
            self.add(site.result, instance)
            return
        maker = self.find(cls, "__new__")
        if maker is not None:
            self.watch(maker, self._on_new, (cls.index, site.number))
        self.add(site.result, instance)
        cls.constructions = self.of_classes.append(cls.constructions, site.number)
        self._initialise(cls, site)

    def _initialise(self, cls: LinkedClass, site: Site) -> None:
        for one in cls.line_of_bases:
            if self.own_attribute(one, "__init__") is not None:
                # What `__init__` returns is not what the call returns.
                inner = self.sites.like(site, self.place())
                self.call_method(self.instance(cls), "__init__", inner)
                return
            if one.makes_constructor:
                self._fill_fields(cls, one, site)
                return
        if self.makes_all_constructors:
            self.edge(site, cls.definition)

    def _on_new(self, value: int, data: tuple[int, int]) -> None:
        cls, site = self.classes[data[0]], self.sites.at(data[1])
        if self.objects.kind[value] is ObjectKind.STATIC:
            value = self.objects.first[value]
        if self.objects.kind[value] is ObjectKind.FUNCTION:
            receiver = self.objects.make(ObjectKind.CLASS, cls.index)
            self.call_function(self.functions[self.objects.first[value]], receiver, site)

    def _on_metaclass_call(self, value: int, data: tuple[int, int]) -> None:
        cls, site = self.classes[data[0]], self.sites.at(data[1])
        if self.objects.kind[value] is ObjectKind.FUNCTION:
            receiver = self.objects.make(ObjectKind.CLASS, cls.index)
            inner = self.sites.like(site, self.place())
            self.call_function(self.functions[self.objects.first[value]], receiver, inner)

    def gains_constructor(self, cls: LinkedClass) -> None:
        """Note that a constructor is made from a class's fields, as for a dataclass."""
        if not cls.makes_constructor and self.own_attribute(cls, "__init__") is None:
            cls.makes_constructor = True
            for one in (cls, *descendants(cls)):
                for number in self.of_classes.of(one.constructions):
                    self._initialise(one, self.sites.at(number))

    def _fill_fields(self, cls: LinkedClass, maker: LinkedClass, site: Site) -> None:
        self.edge(site, maker.definition)
        instance = self.instance(cls)
        fields = list(
            dict.fromkeys(name for one in reversed(cls.line_of_bases) for name in one.fields)
        )
        for name, place in zip(fields, site.positional, strict=False):
            if place > 0:
                self.copy(place, self.field(instance, name))
        for keyword, place in site.keywords:
            if keyword is not None and place:
                self.copy(place, self.field(instance, keyword))
        self.call_method(instance, "__post_init__", self.site(site.runner, site.line))


def descendants(cls: LinkedClass) -> list[LinkedClass]:
    """Return the classes that inherit from a class, each once."""
    found: dict[int, LinkedClass] = {}
    waiting = list(cls.children)
    while waiting:
        one = waiting.pop()
        if one.index not in found:
            found[one.index] = one
            waiting.extend(one.children)
    return list(found.values())
