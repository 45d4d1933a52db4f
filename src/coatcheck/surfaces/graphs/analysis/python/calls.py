"""What a call does: who is called, where the arguments go, what comes back.

Also the calls that are not written as such: iterating, `with`, `await`, operators.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from coatcheck.surfaces.graphs.analysis.disk.tables import Table
from coatcheck.surfaces.graphs.analysis.python.attributes import Attributes
from coatcheck.surfaces.graphs.analysis.python.containers import Container
from coatcheck.surfaces.graphs.analysis.python.flow import Watcher
from coatcheck.surfaces.graphs.analysis.python.functions import LinkedFunction
from coatcheck.surfaces.graphs.analysis.python.objects import Kind
from coatcheck.surfaces.graphs.analysis.python.program import LinkedClass
from coatcheck.surfaces.graphs.analysis.python.sites import Site

_FALLBACKS = {
    "__ne__": ("__eq__",),
    "__format__": ("__str__", "__repr__"),
    "__str__": ("__repr__",),
    "__contains__": ("__iter__",),
    "__bool__": ("__len__",),
}
_KEEPING = {"__add__", "__iadd__", "__or__", "__ior__", "__mul__", "__and__", "__sub__"}

DEEPEST_PARTIAL = 5
# Instead of the place of what stands to the right of an operator.
NO_ARGUMENT = -1


class Calls(Attributes):
    """Knows calls."""

    # Whether a constructor that is not written is made from the class, as in most languages.
    makes_all_constructors = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._derived = Table(self.disk, 2)
        self._watched: set[tuple[int, str, tuple[Any, ...]]] = set()

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
        if kind is Kind.FUNCTION:
            self.call_function(self.functions[first], None, site)
        elif kind is Kind.BOUND:
            self._call_bound(first, self.objects.second[value], site)
        elif kind is Kind.CLASS:
            self._construct(self.classes[first], site)
        elif kind is Kind.INSTANCE:
            self.call_method(value, "__call__", site)
        elif kind is Kind.PARTIAL:
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
        elif kind is Kind.MANAGER_MAKER:
            self._call_manager_maker(first, None, site)
        elif kind is Kind.STATIC:
            self.call(first, site)
        else:
            self.call_outside(value, site)

    def _call_bound(self, value: int, receiver: int, site: Site) -> None:
        kind = self.objects.kind[value]
        if kind is Kind.FUNCTION:
            self.call_function(self.functions[self.objects.first[value]], receiver, site)
        elif kind is Kind.MANAGER_MAKER:
            self._call_manager_maker(self.objects.first[value], receiver, site)
        else:
            self.call(value, site)
            if kind is Kind.BUILTIN and self.objects.first[value] == "type.__call__":
                self._make_instance(self.classes[self.objects.first[receiver]], site)

    def _call_manager_maker(self, function: int, receiver: int | None, site: Site) -> None:
        if self.objects.kind[function] is Kind.FUNCTION:
            linked = self.functions[self.objects.first[function]]
            without = self.sites.like(site, self.place())
            self.call_function(linked, receiver, without)
            self.add(site.result, self.objects.make(Kind.MANAGER, linked.index))

    # --- functions

    def call_function(self, function: LinkedFunction, receiver: int | None, site: Site) -> None:
        """Call a function, with the receiver as its first argument if there is one."""
        self.edge(site, function.definition)
        arguments = self._bind(function, receiver, site)
        if function.yields:
            self.add(site.result, self.objects.make(Kind.GENERATOR, function.index))
            return
        if function.is_async:
            self.add(site.result, self.objects.make(Kind.COROUTINE, function.index))
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

    def _pass_rest(self, source: Container, skipped: int, target: Container) -> None:
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
                if self.objects.kind[value] is Kind.CLASS:
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
        if self.objects.kind[value] is Kind.STATIC:
            value = self.objects.first[value]
        if self.objects.kind[value] is Kind.FUNCTION:
            receiver = self.objects.make(Kind.CLASS, cls.index)
            self.call_function(self.functions[self.objects.first[value]], receiver, site)

    def _on_metaclass_call(self, value: int, data: tuple[int, int]) -> None:
        cls, site = self.classes[data[0]], self.sites.at(data[1])
        if self.objects.kind[value] is Kind.FUNCTION:
            receiver = self.objects.make(Kind.CLASS, cls.index)
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

    # --- iterating

    def on_iterate(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Send what a loop over a value sees to a place."""
        result, is_async, runner, line = data
        if is_async and self.objects.kind[value] is Kind.INSTANCE:
            iterator = self.derived("aiter", result)
            site = self.implied("__aiter__", runner, line, result=iterator)
            if self.call_method(value, "__aiter__", site):
                self.watch_once(iterator, self._on_next, (result, True, runner, line))
        else:
            self.iterate(value, result, runner, line)

    def iterate(self, value: int, result: int, runner: int, line: int) -> None:
        """Send what iterating over a value yields to a place."""
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is Kind.CONTAINER:
            container = self.containers[first]
            self.copy(container.keys if container.kind == "dict" else container.all, result)
        elif kind is Kind.GENERATOR:
            self.copy(self.functions[first].yields, result)
        elif kind is Kind.CLASS and self.classes[first].is_enum:
            self.add(result, self.instance(self.classes[first]))
        elif kind is Kind.INSTANCE:
            iterator = self.derived("iter", result)
            site = self.implied("__iter__", runner, line, result=iterator)
            if self.call_method(value, "__iter__", site):
                self.watch_once(iterator, self._on_next, (result, False, runner, line))
            else:
                site = self.implied("__getitem__", runner, line, 0, result=result)
                self.call_method(value, "__getitem__", site)

    def _on_next(self, value: int, data: tuple[int, bool, int, int]) -> None:
        result, is_async, runner, line = data
        if self.objects.kind[value] is not Kind.INSTANCE:
            self.iterate(value, result, runner, line)
        elif is_async:
            awaited = self.derived("anext", result)
            site = self.implied("__anext__", runner, line, result=awaited)
            self.call_method(value, "__anext__", site)
            self.watch_once(awaited, self.on_await, (result, runner, line))
        else:
            site = self.implied("__next__", runner, line, result=result)
            self.call_method(value, "__next__", site)

    def derived(self, what: str, result: int) -> int:
        """Return the place of what lies between an operation and its result."""
        place, _ = self._derived.get_or_make((self.words[what], result), self.place)
        return place

    def watch_once(self, place: int, watcher: Watcher, data: tuple[Any, ...]) -> None:
        """Watch a place, unless the same is watched there already."""
        key = (place, watcher.__name__, data)
        if key not in self._watched:
            self._watched.add(key)
            self.watch(place, watcher, data)

    # --- awaiting, managing

    def on_await(self, value: int, data: tuple[int, int, int]) -> None:
        """Send what `await value` (or `yield from`) comes to, to a place."""
        result, runner, line = data
        kind = self.objects.kind[value]
        if kind is Kind.COROUTINE or kind is Kind.GENERATOR:
            self.copy(self.functions[self.objects.first[value]].result, result)
        elif kind is Kind.INSTANCE:
            waited = self.derived("await", result)
            self.call_method(
                value, "__await__", self.implied("__await__", runner, line, result=waited)
            )
            self.watch_once(waited, self._on_awaited, (result,))
        elif kind is Kind.CONTAINER:
            # What gather() and its like hand back.
            self.add(result, value)

    def _on_awaited(self, value: int, data: tuple[int]) -> None:
        (result,) = data
        if self.objects.kind[value] is Kind.GENERATOR:
            self.copy(self.functions[self.objects.first[value]].result, result)

    def on_context(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Enter and leave a context manager."""
        result, is_async, runner, line = data
        kind = self.objects.kind[value]
        if kind is Kind.MANAGER:
            self.copy(self.functions[self.objects.first[value]].yields, result)
        elif kind is Kind.INSTANCE:
            entered = self.derived("enter", result) if is_async else result
            enter, leave = ("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")
            site = self.implied(enter, runner, line, result=entered)
            if self.call_method(value, enter, site):
                if is_async:
                    self.watch_once(entered, self.on_await, (result, runner, line))
            elif self.classes[self.objects.first[value]].all_outside:
                self.add(result, value)
            left = self.derived("exit", result)
            self.call_method(value, leave, self.implied(leave, runner, line, 0, 0, 0, result=left))

    # --- operators

    def on_operator(self, value: int, data: tuple[int, int, int, int, int]) -> None:  # noqa: C901
        """Call the special method that an operator stands for."""
        result, number, argument, runner, line = data
        arguments: tuple[int, ...] = () if argument == NO_ARGUMENT else (argument,)
        method = self.words.at[number]
        kind = self.objects.kind[value]
        if kind is Kind.INSTANCE:
            if result:
                site = self.implied(method, runner, line, *arguments, result=result)
            else:
                site = self.site(runner, line, *arguments)
            names = [method, *_FALLBACKS.get(method, ())]
            if method.startswith("__i") and method not in {"__invert__", "__iter__"}:
                names.append(f"__{method[3:]}")
            for name in names:
                if self.call_method(value, name, site):
                    break
        elif kind is Kind.CONTAINER and method in _KEEPING:
            container = self.containers[self.objects.first[value]]
            if method == "__iadd__" and arguments[0]:
                self.watch(arguments[0], self._on_extend, (container.number,))
            elif result:
                self.add(result, value)
                if arguments and arguments[0] and method != "__mul__":
                    self.copy(arguments[0], result)
        elif kind in {Kind.CONSTANT, Kind.TYPED} and result and not method.endswith("eq__"):
            name = self.objects.first[value]
            if kind is Kind.CONSTANT:
                name = "str" if isinstance(name, str) else "int"
            self.add(result, self.objects.make(Kind.TYPED, name))

    def _on_extend(self, value: int, data: tuple[int]) -> None:
        self.iterate(value, self.containers[data[0]].appended, 0, 0)

    # --- items

    def on_item(self, value: int, data: tuple[int, int, int, int, int]) -> None:  # noqa: C901, PLR0912
        """Send `value[key]` to a place; data has the key's number."""
        result, number, key_place, runner, line = data
        key = self.words.at[number]
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is Kind.CONTAINER:
            container = self.containers[first]
            if container.kind == "dict" and key_place == _UNPACKED:
                self.copy(container.keys, result)
            elif key_place == _REST:
                self._get_rest(container, key, result)
            elif key is None and key_place > 0:
                self.get_at(container, key_place, result)
            else:
                self.get(container, key, result)
        elif kind is Kind.INSTANCE:
            if key_place in {_UNPACKED, _REST}:
                self.iterate(value, result, runner, line)
            else:
                place = max(key_place, 0)
                site = self.implied("__getitem__", runner, line, place, result=result)
                self.call_method(value, "__getitem__", site)
                self._named_tuple_item(value, key, result)
        elif kind is Kind.GENERATOR:
            self.iterate(value, result, runner, line)
        elif kind is Kind.CLASS:
            if self.classes[first].is_enum:
                self.add(result, self.instance(self.classes[first]))
            else:
                self.add(result, value)  # Box[int] is still Box
        elif kind is Kind.NAMESPACE:
            self._namespace_item(first, key, key_place, (result, runner, line))
        elif kind in {Kind.EXTERNAL, Kind.BUILTIN} and first.startswith(_SUBSCRIPTED):
            self.add(result, value)

    def _named_tuple_item(self, value: int, key: Any, result: int) -> None:
        cls = self.classes[self.objects.first[value]]
        if cls.makes_constructor and isinstance(key, int) and 0 <= key < len(cls.fields):
            self.copy(self.field(value, cls.fields[key]), result)

    def _get_rest(self, container: Container, start: int, result: int) -> None:
        length = self.length(container)
        if length is None:
            self.copy(container.all, result)
            return
        for key in range(start, length):
            self.get(container, key, result)
        self.copy(container.appended, result)

    def _namespace_item(
        self, value: int, key: Any, key_place: int, data: tuple[int, int, int]
    ) -> None:
        result, runner, line = data
        if isinstance(key, str):
            self.on_load(value, (result, self.words[key], runner, line))
        elif key_place > 0:
            self.watch(key_place, self.on_attribute_name, (value, result, runner, line))

    def on_attribute_name(self, name: int, data: tuple[int, int, int, int]) -> None:
        """Load the attribute whose name a place holds."""
        value, result, runner, line = data
        text = self.objects.first[name]
        if self.objects.kind[name] is Kind.CONSTANT and isinstance(text, str):
            self.on_load(value, (result, self.words[text], runner, line))

    def on_item_store(self, value: int, data: tuple[int, int, int, int, int]) -> None:
        """Store a place's values at `value[key]`; data has the key's number."""
        number, key_place, source, runner, line = data
        key = self.words.at[number]
        kind = self.objects.kind[value]
        if kind is Kind.CONTAINER:
            container = self.containers[self.objects.first[value]]
            if key is None and key_place > 0:
                self.put_at(container, key_place, source)
            else:
                self.put(container, key, source)
        elif kind is Kind.INSTANCE:
            what = f"set {source} at {key_place}"
            site = self.implied(
                what, runner, line, max(key_place, 0), source, result=self.derived("set", source)
            )
            self.call_method(value, "__setitem__", site)
        elif kind is Kind.NAMESPACE and isinstance(key, str) and source:
            self.on_store(self.objects.first[value], (number, source, runner, line))


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


# Instead of the place of a key (summary.items): a slice, `*rest`, an element that is unpacked.
_REST, _UNPACKED = -2, -3
_SUBSCRIPTED = ("typing", "collections.", "list", "dict", "tuple", "set", "type", "frozenset")
