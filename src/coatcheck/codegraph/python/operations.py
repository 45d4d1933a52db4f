"""Calls that are not written as such: iterating, `with`, `await`, operators, `value[key]`."""

from __future__ import annotations

from typing import Any

from coatcheck.codegraph.disk.tables import Table
from coatcheck.codegraph.python.calls import CallResolver
from coatcheck.codegraph.python.containers import ContainerValue
from coatcheck.codegraph.python.flow import Watcher
from coatcheck.codegraph.python.objects import ObjectKind

_FALLBACKS = {
    "__ne__": ("__eq__",),
    "__format__": ("__str__", "__repr__"),
    "__str__": ("__repr__",),
    "__contains__": ("__iter__",),
    "__bool__": ("__len__",),
}
_KEEPING = {"__add__", "__iadd__", "__or__", "__ior__", "__mul__", "__and__", "__sub__"}
# Instead of the place of a key (summary.items): a slice, `*rest`, an element that is unpacked.
_REST, _UNPACKED = -2, -3
_SUBSCRIPTED = ("typing", "collections.", "list", "dict", "tuple", "set", "type", "frozenset")

# Instead of the place of what stands to the right of an operator.
NO_ARGUMENT = -1


class Operations(CallResolver):
    """Knows which methods the language calls by itself."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._derived = Table(self.disk, 2)
        self._watched: set[tuple[int, str, tuple[Any, ...]]] = set()

    # --- iterating

    def on_iterate(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Send what a loop over a value sees to a place."""
        result, is_async, runner, line = data
        if is_async and self.objects.kind[value] is ObjectKind.INSTANCE:
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
        if kind is ObjectKind.CONTAINER:
            container = self.containers[first]
            self.copy(container.keys if container.kind == "dict" else container.all, result)
        elif kind is ObjectKind.GENERATOR:
            self.copy(self.functions[first].yields, result)
        elif kind is ObjectKind.CLASS and self.classes[first].is_enum:
            self.add(result, self.instance(self.classes[first]))
        elif kind is ObjectKind.INSTANCE:
            iterator = self.derived("iter", result)
            site = self.implied("__iter__", runner, line, result=iterator)
            if self.call_method(value, "__iter__", site):
                self.watch_once(iterator, self._on_next, (result, False, runner, line))
            else:
                site = self.implied("__getitem__", runner, line, 0, result=result)
                self.call_method(value, "__getitem__", site)

    def _on_next(self, value: int, data: tuple[int, bool, int, int]) -> None:
        result, is_async, runner, line = data
        if self.objects.kind[value] is not ObjectKind.INSTANCE:
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
        if kind is ObjectKind.COROUTINE or kind is ObjectKind.GENERATOR:
            self.copy(self.functions[self.objects.first[value]].result, result)
        elif kind is ObjectKind.INSTANCE:
            waited = self.derived("await", result)
            self.call_method(
                value, "__await__", self.implied("__await__", runner, line, result=waited)
            )
            self.watch_once(waited, self._on_awaited, (result,))
        elif kind is ObjectKind.CONTAINER:
            # What gather() and its like hand back.
            self.add(result, value)

    def _on_awaited(self, value: int, data: tuple[int]) -> None:
        (result,) = data
        if self.objects.kind[value] is ObjectKind.GENERATOR:
            self.copy(self.functions[self.objects.first[value]].result, result)

    def on_context(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Enter and leave a context manager."""
        result, is_async, runner, line = data
        kind = self.objects.kind[value]
        if kind is ObjectKind.MANAGER:
            self.copy(self.functions[self.objects.first[value]].yields, result)
        elif kind is ObjectKind.INSTANCE:
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
        if kind is ObjectKind.INSTANCE:
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
        elif kind is ObjectKind.CONTAINER and method in _KEEPING:
            container = self.containers[self.objects.first[value]]
            if method == "__iadd__" and arguments[0]:
                self.watch(arguments[0], self._on_extend, (container.number,))
            elif result:
                self.add(result, value)
                if arguments and arguments[0] and method != "__mul__":
                    self.copy(arguments[0], result)
        elif (
            kind in {ObjectKind.CONSTANT, ObjectKind.TYPED}
            and result
            and not method.endswith("eq__")
        ):
            name = self.objects.first[value]
            if kind is ObjectKind.CONSTANT:
                name = "str" if isinstance(name, str) else "int"
            self.add(result, self.objects.make(ObjectKind.TYPED, name))

    def _on_extend(self, value: int, data: tuple[int]) -> None:
        self.iterate(value, self.containers[data[0]].appended, 0, 0)

    # --- items

    def on_item(self, value: int, data: tuple[int, int, int, int, int]) -> None:  # noqa: C901, PLR0912
        """Send `value[key]` to a place; data has the key's number."""
        result, number, key_place, runner, line = data
        key = self.words.at[number]
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is ObjectKind.CONTAINER:
            container = self.containers[first]
            if container.kind == "dict" and key_place == _UNPACKED:
                self.copy(container.keys, result)
            elif key_place == _REST:
                self._get_rest(container, key, result)
            elif key is None and key_place > 0:
                self.get_at(container, key_place, result)
            else:
                self.get(container, key, result)
        elif kind is ObjectKind.INSTANCE:
            if key_place in {_UNPACKED, _REST}:
                self.iterate(value, result, runner, line)
            else:
                place = max(key_place, 0)
                site = self.implied("__getitem__", runner, line, place, result=result)
                self.call_method(value, "__getitem__", site)
                self._named_tuple_item(value, key, result)
        elif kind is ObjectKind.GENERATOR:
            self.iterate(value, result, runner, line)
        elif kind is ObjectKind.CLASS:
            if self.classes[first].is_enum:
                self.add(result, self.instance(self.classes[first]))
            else:
                self.add(result, value)  # Box[int] is still Box
        elif kind is ObjectKind.NAMESPACE:
            self._namespace_item(first, key, key_place, (result, runner, line))
        elif kind in {ObjectKind.EXTERNAL, ObjectKind.BUILTIN} and first.startswith(_SUBSCRIPTED):
            self.add(result, value)

    def _named_tuple_item(self, value: int, key: Any, result: int) -> None:
        cls = self.classes[self.objects.first[value]]
        if cls.makes_constructor and isinstance(key, int) and 0 <= key < len(cls.fields):
            self.copy(self.field(value, cls.fields[key]), result)

    def _get_rest(self, container: ContainerValue, start: int, result: int) -> None:
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
        if self.objects.kind[name] is ObjectKind.CONSTANT and isinstance(text, str):
            self.on_load(value, (result, self.words[text], runner, line))

    def on_item_store(self, value: int, data: tuple[int, int, int, int, int]) -> None:
        """Store a place's values at `value[key]`; data has the key's number."""
        number, key_place, source, runner, line = data
        key = self.words.at[number]
        kind = self.objects.kind[value]
        if kind is ObjectKind.CONTAINER:
            container = self.containers[self.objects.first[value]]
            if key is None and key_place > 0:
                self.put_at(container, key_place, source)
            else:
                self.put(container, key, source)
        elif kind is ObjectKind.INSTANCE:
            what = f"set {source} at {key_place}"
            site = self.implied(
                what, runner, line, max(key_place, 0), source, result=self.derived("set", source)
            )
            self.call_method(value, "__setitem__", site)
        elif kind is ObjectKind.NAMESPACE and isinstance(key, str) and source:
            self.on_store(self.objects.first[value], (number, source, runner, line))
