"""Calls that the language makes: iteration, `with`, `await`, operators, `value[key]`."""

from __future__ import annotations

from typing import Any

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.calls import CallResolver
from coatcheck.codegraph.points_to.flow import Handler
from coatcheck.codegraph.points_to.program import Container
from coatcheck.codegraph.summary import Key

_FALLBACKS = {
    "__ne__": ("__eq__",),
    "__format__": ("__str__", "__repr__"),
    "__str__": ("__repr__",),
    "__contains__": ("__iter__",),
    "__bool__": ("__len__",),
}
_CONTAINER_OPERATORS = {"__add__", "__iadd__", "__or__", "__ior__", "__mul__", "__and__", "__sub__"}
# Instead of a key's variable (summary.items): `*rest`, an unpacked element.
_REST, _UNPACKED = -2, -3
_SUBSCRIPTED = ("typing", "collections.", "list", "dict", "tuple", "set", "type", "frozenset")

# Instead of the variable of the right operand.
NO_ARGUMENT = -1


class Operations(CallResolver):
    """Special methods that the language calls."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._derived: dict[tuple[str, int], int] = {}
        self._subscribed: set[tuple[int, str, tuple[Any, ...]]] = set()

    # --- iteration

    def on_iterate(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Send the elements of a loop over a value to a variable."""
        result, is_async, caller, line = data
        if is_async and self.kind[value] == kinds.INSTANCE:
            iterator = self.derived("aiter", result)
            site = self.implied("__aiter__", caller, line, result=iterator)
            if self.call_method(value, "__aiter__", site):
                self.subscribe_once(iterator, self._on_next, (result, True, caller, line))
        else:
            self.iterate(value, result, caller, line)

    def iterate(self, value: int, result: int, caller: int, line: int) -> None:
        """Send the elements of an iterable value to a variable."""
        kind = self.kind[value]
        first = self.first[value]
        if kind == kinds.CONTAINER:
            container = first
            self.copy(container.keys if container.kind == "dict" else container.all, result)
        elif kind == kinds.GENERATOR:
            self.copy(self.functions[first].yields, result)
        elif kind == kinds.CLASS and self.classes[first].is_enum:
            self.add(result, self.instance(self.classes[first]))
        elif kind == kinds.INSTANCE:
            iterator = self.derived("iter", result)
            site = self.implied("__iter__", caller, line, result=iterator)
            if self.call_method(value, "__iter__", site):
                self.subscribe_once(iterator, self._on_next, (result, False, caller, line))
            else:
                site = self.implied("__getitem__", caller, line, 0, result=result)
                self.call_method(value, "__getitem__", site)

    def _on_next(self, value: int, data: tuple[int, bool, int, int]) -> None:
        result, is_async, caller, line = data
        if self.kind[value] != kinds.INSTANCE:
            self.iterate(value, result, caller, line)
        elif is_async:
            awaited = self.derived("anext", result)
            site = self.implied("__anext__", caller, line, result=awaited)
            self.call_method(value, "__anext__", site)
            self.subscribe_once(awaited, self.on_await, (result, caller, line))
        else:
            site = self.implied("__next__", caller, line, result=result)
            self.call_method(value, "__next__", site)

    def derived(self, what: str, result: int) -> int:
        """Return the variable of an intermediate value on the way to a result."""
        key = (what, result)
        var = self._derived.get(key)
        if var is None:
            var = self._derived[key] = self.new_var()
        return var

    def subscribe_once(self, var: int, handler: Handler, data: tuple[Any, ...]) -> None:
        """Subscribe, unless the same subscription exists."""
        key = (var, handler.__name__, data)
        if key not in self._subscribed:
            self._subscribed.add(key)
            self.subscribe(var, handler, data)

    # --- await, with

    def on_await(self, value: int, data: tuple[int, int, int]) -> None:
        """Send the result of `await value` (or `yield from`) to a variable."""
        result, caller, line = data
        kind = self.kind[value]
        if kind == kinds.COROUTINE or kind == kinds.GENERATOR:
            self.copy(self.functions[self.first[value]].result, result)
        elif kind == kinds.INSTANCE:
            waited = self.derived("await", result)
            self.call_method(
                value, "__await__", self.implied("__await__", caller, line, result=waited)
            )
            self.subscribe_once(waited, self._on_awaited, (result,))
        elif kind == kinds.CONTAINER:
            # gather() and its like return containers.
            self.add(result, value)

    def _on_awaited(self, value: int, data: tuple[int]) -> None:
        (result,) = data
        if self.kind[value] == kinds.GENERATOR:
            self.copy(self.functions[self.first[value]].result, result)

    def on_context(self, value: int, data: tuple[int, bool, int, int]) -> None:
        """Enter and leave a context manager."""
        result, is_async, caller, line = data
        kind = self.kind[value]
        if kind == kinds.MANAGER:
            self.copy(self.functions[self.first[value]].yields, result)
        elif kind == kinds.INSTANCE:
            entered = self.derived("enter", result) if is_async else result
            enter, leave = ("__aenter__", "__aexit__") if is_async else ("__enter__", "__exit__")
            site = self.implied(enter, caller, line, result=entered)
            if self.call_method(value, enter, site):
                if is_async:
                    self.subscribe_once(entered, self.on_await, (result, caller, line))
            elif self.classes[self.first[value]].all_external_bases:
                self.add(result, value)
            left = self.derived("exit", result)
            self.call_method(value, leave, self.implied(leave, caller, line, 0, 0, 0, result=left))

    # --- operators

    def on_operator(self, value: int, data: tuple[int, str, int, int, int]) -> None:  # noqa: C901
        """Call the special method of an operator."""
        result, method, argument, caller, line = data
        arguments: tuple[int, ...] = () if argument == NO_ARGUMENT else (argument,)
        kind = self.kind[value]
        if kind == kinds.INSTANCE:
            if result:
                site = self.implied(method, caller, line, *arguments, result=result)
            else:
                site = self.site(caller, line, *arguments)
            names = [method, *_FALLBACKS.get(method, ())]
            if method.startswith("__i") and method not in {"__invert__", "__iter__"}:
                names.append(f"__{method[3:]}")
            for name in names:
                if self.call_method(value, name, site):
                    break
        elif kind == kinds.CONTAINER and method in _CONTAINER_OPERATORS:
            container = self.first[value]
            if method == "__iadd__" and arguments[0]:
                self.subscribe(arguments[0], self._on_extend, container)
            elif result:
                self.add(result, value)
                if arguments and arguments[0] and method != "__mul__":
                    self.copy(arguments[0], result)
        elif kind in {kinds.CONSTANT, kinds.TYPED} and result and not method.endswith("eq__"):
            name = self.first[value]
            if kind == kinds.CONSTANT:
                name = "str" if isinstance(name, str) else "int"
            self.add(result, self.make(kinds.TYPED, name))

    def _on_extend(self, value: int, container: Container) -> None:
        self.iterate(value, container.appended, 0, 0)

    # --- items

    def on_item(self, value: int, data: tuple[int, Key, int, int, int]) -> None:  # noqa: C901, PLR0912
        """Load `value[key]`."""
        result, key, key_var, caller, line = data
        kind = self.kind[value]
        first = self.first[value]
        if kind == kinds.CONTAINER:
            container = first
            if container.kind == "dict" and key_var == _UNPACKED:
                self.copy(container.keys, result)
            elif key_var == _REST and isinstance(key, int):
                self._get_rest(container, key, result)
            elif key is None and key_var > 0:
                self.get_at(container, key_var, result)
            else:
                self.get(container, key, result)
        elif kind == kinds.INSTANCE:
            if key_var in {_UNPACKED, _REST}:
                self.iterate(value, result, caller, line)
            else:
                var = max(key_var, 0)
                site = self.implied("__getitem__", caller, line, var, result=result)
                self.call_method(value, "__getitem__", site)
                self._named_tuple_item(value, key, result)
        elif kind == kinds.GENERATOR:
            self.iterate(value, result, caller, line)
        elif kind == kinds.CLASS:
            if self.classes[first].is_enum:
                self.add(result, self.instance(self.classes[first]))
            else:
                self.add(result, value)  # Box[int] is still Box
        elif kind == kinds.NAMESPACE:
            self._namespace_item(first, key, key_var, (result, caller, line))
        elif kind in {kinds.EXTERNAL, kinds.BUILTIN} and first.startswith(_SUBSCRIPTED):
            self.add(result, value)

    def _named_tuple_item(self, value: int, key: Any, result: int) -> None:
        cls = self.classes[self.first[value]]
        if cls.has_field_constructor and isinstance(key, int) and 0 <= key < len(cls.fields):
            self.copy(self.field(value, cls.fields[key]), result)

    def _get_rest(self, container: Container, start: int, result: int) -> None:
        length = container.length
        if length is None:
            self.copy(container.all, result)
            return
        for key in range(start, length):
            self.get(container, key, result)
        self.copy(container.appended, result)

    def _namespace_item(
        self, value: int, key: Any, key_var: int, data: tuple[int, int, int]
    ) -> None:
        result, caller, line = data
        if isinstance(key, str):
            self.on_load(value, (result, key, caller, line))
        elif key_var > 0:
            self.subscribe(key_var, self.on_attribute_name, (value, result, caller, line))

    def on_attribute_name(self, name: int, data: tuple[int, int, int, int]) -> None:
        """Load the attribute whose name a variable holds."""
        value, result, caller, line = data
        text = self.first[name]
        if self.kind[name] == kinds.CONSTANT and isinstance(text, str):
            self.on_load(value, (result, text, caller, line))

    def on_item_store(self, value: int, data: tuple[Key, int, int, int, int]) -> None:
        """Store a variable at `value[key]`."""
        key, key_var, source, caller, line = data
        kind = self.kind[value]
        if kind == kinds.CONTAINER:
            container = self.first[value]
            if key is None and key_var > 0:
                self.put_at(container, key_var, source)
            else:
                self.put(container, key, source)
        elif kind == kinds.INSTANCE:
            what = f"set {source} at {key_var}"
            site = self.implied(
                what, caller, line, max(key_var, 0), source, result=self.derived("set", source)
            )
            self.call_method(value, "__setitem__", site)
        elif kind == kinds.NAMESPACE and isinstance(key, str) and source:
            self.on_store(self.first[value], (key, source, caller, line))
