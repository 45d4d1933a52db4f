"""Models of builtins and of a little of the standard library.

A model calls arguments (`map`, `sorted(key=)`), returns them (`iter`, `partial`), or changes the
meaning of a class or function (`property`, `dataclass`). A call without a model reaches an external
object and returns nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.container_methods import ContainerMethods
from coatcheck.codegraph.points_to.program import Container, Partial, Property

_TYPES = {
    "str": "str", "repr": "str", "format": "str", "input": "str", "chr": "str", "hex": "str",
    "int": "int", "len": "int", "ord": "int", "hash": "int", "id": "int", "float": "float",
    "bytes": "bytes", "bool": "bool", "ascii": "str", "bin": "str", "oct": "str",
}  # fmt: skip
_SPECIAL = {
    "len": ("__len__",), "str": ("__str__", "__repr__"), "repr": ("__repr__",),
    "bool": ("__bool__", "__len__"), "hash": ("__hash__",), "abs": ("__abs__",),
    "int": ("__int__",), "float": ("__float__",), "print": ("__str__", "__repr__"),
    "format": ("__format__", "__str__"), "bytes": ("__bytes__",), "reversed": ("__reversed__",),
    "dir": ("__dir__",), "round": ("__round__",),
}  # fmt: skip
_COLLECTING = {
    "list": "list", "tuple": "tuple", "set": "set", "frozenset": "set", "reversed": "list",
    "collections.deque": "deque", "itertools.chain": "list", "itertools.cycle": "list",
    "itertools.islice": "list", "iter": "list",
}  # fmt: skip
_IDENTITY = {
    "functools.lru_cache", "functools.cache", "functools.singledispatch", "abc.abstractmethod",
    "typing.overload", "typing.final", "typing.runtime_checkable", "functools.total_ordering",
    "copy.copy", "copy.deepcopy", "asyncio.create_task", "asyncio.ensure_future",
    "asyncio.shield", "asyncio.wait_for", "contextlib.closing", "weakref.proxy", "types.coroutine",
    "atexit.register", "typing.no_type_check", "contextlib.aclosing", "inspect.unwrap",
    "enum.unique", "staticmethod.__func__",
}  # fmt: skip
_DATACLASS = {
    "dataclasses.dataclass", "attr.s", "attr.attrs", "attr.define", "attr.frozen", "attr.dataclass",
    "attrs.define", "attrs.frozen", "attrs.mutable", "pydantic.dataclasses.dataclass",
}  # fmt: skip
_PROPERTIES = {"functools.cached_property", "property", "abc.abstractproperty",
               "django.utils.functional.cached_property"}  # fmt: skip
_MANAGERS = {"contextlib.contextmanager", "contextlib.asynccontextmanager"}
# Declarations of the language, which are not shown as calls.
_SILENT = {"property", "staticmethod", "classmethod"}

_WRAPPED = {
    kinds.FUNCTION,
    kinds.MANAGER_FACTORY,
    kinds.PARTIAL,
    kinds.EXTERNAL,
    kinds.BUILTIN,
}

Model = Callable[["Models", str, CallSite], None]


class Models(ContainerMethods):
    """Calls of objects from outside the archive."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._models: dict[str, Model] = {}
        self._instances: set[tuple[int, int]] = set()
        for model, names in (
            (Models._model_map, ("map", "itertools.starmap")),
            (Models._model_filter, ("filter", "itertools.filterfalse", "itertools.takewhile",
                                    "itertools.dropwhile")),
            (Models._model_sorted, ("sorted", "min", "max", "heapq.nlargest", "heapq.nsmallest",
                                    "itertools.groupby")),
            (Models._model_collect, tuple(_COLLECTING)),
            (Models._model_dict, ("dict", "collections.OrderedDict")),
            (Models._model_defaultdict, ("collections.defaultdict",)),
            (Models._model_enumerate, ("enumerate",)),
            (Models._model_zip, ("zip", "itertools.zip_longest", "itertools.product")),
            (Models._model_next, ("next", "anext")),
            (Models._model_getattr, ("getattr",)),
            (Models._model_setattr, ("setattr",)),
            (Models._model_type, ("type",)),
            (Models._model_super, ("super",)),
            (Models._model_static, ("staticmethod", "abc.abstractstaticmethod")),
            (Models._model_class_method, ("classmethod", "abc.abstractclassmethod")),
            (Models._model_property, tuple(_PROPERTIES)),
            (Models._model_partial, ("functools.partial", "functools.partialmethod")),
            (Models._model_reduce, ("functools.reduce",)),
            (Models._model_wraps, ("functools.wraps", "functools.lru_cache")),
            (Models._model_identity, tuple(_IDENTITY - {"functools.lru_cache"})),
            (Models._model_cast, ("typing.cast", "typing_extensions.cast")),
            (Models._model_dataclass, tuple(_DATACLASS)),
            (Models._model_manager, tuple(_MANAGERS)),
            (Models._model_run, ("asyncio.run", "anyio.run", "trio.run")),
            (Models._model_gather, ("asyncio.gather",)),
            (Models._model_import, ("importlib.import_module", "__import__")),
            (Models._model_globals, ("globals", "vars", "locals")),
            (Models._model_new, ("object.__new__",)),
        ):  # fmt: skip
            self._models.update(dict.fromkeys(names, model))

    def call_outside(self, value: int, site: CallSite) -> None:
        """Call a builtin, a method of a builtin type, or an imported object."""
        kind = self.kind[value]
        if kind == kinds.METHOD_OF:
            self.call_method_of(value, site)
            return
        if kind == kinds.DECORATOR:
            self._wrap(self.first[value], site)
            return
        if kind != kinds.EXTERNAL and kind != kinds.BUILTIN:
            return
        name: str = self.first[value]
        if not (name in _SILENT and site.is_declaration):
            outside = f"<builtin>.{name}" if kind == kinds.BUILTIN else name
            self.edge(site, outside)
        if name in _SPECIAL and kind == kinds.BUILTIN:
            for var in site.positional:
                if var > 0:
                    self.subscribe(var, self._on_special, (name, site))
        model = self._models.get(name)
        if model is not None:
            model(self, name, site)
        elif name in _TYPES and kind == kinds.BUILTIN:
            self.add(site.result, self.make(kinds.TYPED, _TYPES[name]))

    def _on_special(self, value: int, data: tuple[str, CallSite]) -> None:
        if self.kind[value] == kinds.INSTANCE:
            name, site = data
            for method in _SPECIAL[name]:
                inner = self.implied(method, site.caller, site.line, result=site.result)
                if self.call_method(value, method, inner):
                    break

    # --- arguments

    @staticmethod
    def _argument(site: CallSite, index: int, keyword: str | None = None) -> int:
        """Return the variable of an argument, or 0 if it is not passed on its own."""
        if index < len(site.positional):
            given = site.positional[: index + 1]
            return given[index] if all(var >= 0 for var in given) else 0
        return next((var for name, var in site.keywords if keyword and name == keyword), 0)

    def _elements(self, var: int, site: CallSite) -> int:
        """Return a variable of the elements of an argument."""
        element = self.new_var()
        if var:
            data = (element, False, site.caller, site.line)
            self.subscribe(abs(var), self.on_iterate, data)
        return element

    def _collected(self, kind: str, element: int, site: CallSite) -> None:
        value, container = self.container_at(site, kind)
        self.copy(element, container.any)
        self.add(site.result, value)

    # --- builtins that call or return their arguments

    def _model_map(self, name: str, site: CallSite) -> None:
        function = self._argument(site, 0)
        elements = [self._elements(var, site) for var in site.positional[1:]]
        if not function:
            return
        positional = tuple(-e for e in elements) if name.endswith("starmap") else tuple(elements)
        inner = self.site(site.caller, site.line, *positional)
        self.call_var(function, inner)
        self._collected("list", inner.result, site)

    def _model_filter(self, _: str, site: CallSite) -> None:
        function = self._argument(site, 0)
        element = self._elements(self._argument(site, 1), site)
        if function:
            self.call_var(function, self.site(site.caller, site.line, element))
        self._collected("list", element, site)

    def _model_sorted(self, name: str, site: CallSite) -> None:
        elements = [var for var in site.positional if var]
        is_alone = len(elements) == 1 or name.startswith(("heapq", "itertools"))
        element = self.new_var()
        for var in elements[-1:] if name.startswith("heapq") else elements:
            self.copy(self._elements(var, site) if is_alone else abs(var), element)
        index = 1 if name == "itertools.groupby" else 9
        key = self._argument(site, index, "key")
        if key:
            self.call_var(key, self.site(site.caller, site.line, element))
        if name in {"min", "max"}:
            self.copy(element, site.result)
        else:
            self._collected("list", element, site)

    def _model_collect(self, name: str, site: CallSite) -> None:
        element = self.new_var()
        source = site.positional
        if name in {"itertools.islice", "iter"}:
            source = source[:1]
        if name == "iter" and source and source[0] > 0:
            self.subscribe(source[0], self._on_iter, site)
            return
        kind = _COLLECTING[name]
        if name in {"list", "tuple"} and len(source) == 1 and source[0] > 0:
            self.subscribe(source[0], self._on_same_order, (kind, site))
            return
        for var in source:
            self.copy(self._elements(var, site), element)
        self._collected(kind, element, site)

    def _on_iter(self, value: int, site: CallSite) -> None:
        if self.kind[value] == kinds.INSTANCE:
            self.call_method(
                value, "__iter__", self.site(site.caller, site.line, result=site.result)
            )
        else:
            self.add(site.result, value)

    def _on_same_order(self, value: int, data: tuple[str, CallSite]) -> None:
        """Copy a container; elements keep their keys."""
        kind, site = data
        made, container = self.container_at(site, kind)
        other = self.container_of(value)
        if other is not None and other.kind in {"list", "tuple"}:
            container.length = other.length
            self.copy(other.any, container.any)
            self.copy(other.appended, container.appended)
            self.mirror(other, container)
        else:
            self.iterate(value, container.any, site.caller, site.line)
        self.add(site.result, made)

    def _model_dict(self, _: str, site: CallSite) -> None:
        value, container = self.container_at(site, "dict")
        for var in site.positional:
            if var > 0:
                self.subscribe(var, self._on_dict_of, (container, site))
        for name, var in site.keywords:
            if name is None and var:
                self.spread(container, var)
            elif name is not None:
                self.put(container, name, var)
        self.add(site.result, value)

    def _on_dict_of(self, value: int, data: tuple[Container, CallSite]) -> None:
        container, site = data
        other = self.container_of(value)
        if other is not None and other.kind == "dict":
            held = self.new_var()
            self.add(held, value)
            self.spread(container, held)
            return
        pair = self.new_var()
        self.iterate(value, pair, site.caller, site.line)
        key, element = self.new_var(), self.new_var()
        for index, part in enumerate((key, element)):
            self.subscribe(pair, self.on_item, (part, index, -3, site.caller, site.line))
        self.copy(key, container.keys)
        self.copy(element, container.any)

    def _model_defaultdict(self, _: str, site: CallSite) -> None:
        value, container = self.container_at(site, "dict")
        factory = self._argument(site, 0)
        if factory:
            inner = self.site(site.caller, site.line)
            self.call_var(factory, inner)
            self.copy(inner.result, container.any)
        self.add(site.result, value)

    def _model_enumerate(self, _: str, site: CallSite) -> None:
        self._collected("list", self._tuple_of(0, self._elements(self._argument(site, 0), site)),
                        site)  # fmt: skip

    def _model_zip(self, _: str, site: CallSite) -> None:
        elements = [self._elements(var, site) for var in site.positional]
        self._collected("list", self._tuple_of(*elements), site)

    def _tuple_of(self, *elements: int) -> int:
        value, container = self.make_container("tuple", len(elements))
        for index, element in enumerate(elements):
            self.put(container, index, element)
        var = self.new_var()
        self.add(var, value)
        return var

    def _model_next(self, _: str, site: CallSite) -> None:
        var = self._argument(site, 0)
        if var:
            self.subscribe(var, self._on_next, (site.result, False, site.caller, site.line))
        if default := self._argument(site, 1):
            self.copy(default, site.result)

    def _model_reduce(self, _: str, site: CallSite) -> None:
        function = self._argument(site, 0)
        element = self._elements(self._argument(site, 1), site)
        total = self.new_var()
        self.copy(element, total)
        self.copy(site.result, total)
        if start := self._argument(site, 2):
            self.copy(start, total)
        if function:
            self.call_var(
                function, self.site(site.caller, site.line, total, element, result=site.result)
            )

    # --- attributes by name

    def _model_getattr(self, _: str, site: CallSite) -> None:
        target, name = self._argument(site, 0), self._argument(site, 1)
        if target and name:
            self.subscribe(target, self._on_getattr, (name, site))
        if default := self._argument(site, 2):
            self.copy(default, site.result)

    def _on_getattr(self, value: int, data: tuple[int, CallSite]) -> None:
        name, site = data
        self.subscribe(name, self.on_attribute_name, (value, site.result, site.caller, site.line))

    def _model_setattr(self, _: str, site: CallSite) -> None:
        target, name, value = (self._argument(site, index) for index in range(3))
        if target and name and value:
            self.subscribe(name, self._on_setattr, (target, value, site))

    def _on_setattr(self, name: int, data: tuple[int, int, CallSite]) -> None:
        target, value, site = data
        text = self.first[name]
        if self.kind[name] == kinds.CONSTANT and isinstance(text, str):
            self.subscribe(target, self.on_store, (text, value, site.caller, site.line))

    def _model_globals(self, name: str, site: CallSite) -> None:
        if name == "globals" and not site.positional:
            module = self.module_of(site.caller)
            value = self.make(kinds.MODULE, module)
            self.add(site.result, self.make(kinds.NAMESPACE, value))
        elif name == "vars" and (var := self._argument(site, 0)):
            self.subscribe(var, self._on_vars, site.result)

    def _on_vars(self, value: int, result: int) -> None:
        if self.kind[value] in {kinds.INSTANCE, kinds.CLASS, kinds.MODULE}:
            self.add(result, self.make(kinds.NAMESPACE, value))

    @abstractmethod
    def module_of(self, caller: int) -> int:
        """Return the index of a definition's module (linker.py)."""

    def _model_import(self, _: str, site: CallSite) -> None:
        if name := self._argument(site, 0):
            self.subscribe(name, self._on_import, site)

    def _on_import(self, value: int, site: CallSite) -> None:
        text = self.first[value]
        if self.kind[value] != kinds.CONSTANT or not isinstance(text, str):
            return
        importer = self.archive.modules[self.module_of(site.caller)]
        found = self.archive.absolute(importer, text)
        if found is not None:
            self.add(site.result, self.make(kinds.MODULE, found.index))
        elif text:
            self.add(site.result, self.external(text))

    # --- classes and decorators

    def _model_type(self, _: str, site: CallSite) -> None:
        if len(site.positional) == 1 and site.positional[0] > 0:
            self.subscribe(site.positional[0], self._on_type, site.result)

    def _on_type(self, value: int, result: int) -> None:
        if self.kind[value] == kinds.INSTANCE:
            self.add(result, self.make(kinds.CLASS, self.first[value]))

    def _model_new(self, _: str, site: CallSite) -> None:
        if var := self._argument(site, 0):
            self.instances_of(var, site.result)

    def instances_of(self, classes: int, result: int) -> None:
        """Send instances of the classes in a variable to another variable."""
        key = (classes, result)
        if key not in self._instances:
            self._instances.add(key)
            self.subscribe(classes, self._on_class, result)

    def _on_class(self, value: int, result: int) -> None:
        kind = self.kind[value]
        if kind == kinds.CLASS:
            self.add(result, self.instance(self.classes[self.first[value]]))
        elif kind == kinds.CONTAINER:
            self.instances_of(self.first[value].all, result)
        elif kind == kinds.BUILTIN and self.first[value] in {
            "str",
            "int",
            "float",
            "bytes",
        }:
            self.add(result, self.make(kinds.TYPED, self.first[value]))

    def _model_super(self, _: str, site: CallSite) -> None:
        cls, receiver = self._argument(site, 0), self._argument(site, 1)
        if cls and receiver:
            self.subscribe(cls, self._on_super_class, (receiver, site.result))

    def _on_super_class(self, value: int, data: tuple[int, int]) -> None:
        if self.kind[value] == kinds.CLASS:
            receiver, result = data
            self.subscribe(receiver, self.on_super, (self.first[value], result))

    def on_super(self, value: int, data: tuple[int, int]) -> None:
        """Create the `super()` object of a receiver."""
        index, result = data
        if self.kind[value] in {kinds.INSTANCE, kinds.CLASS}:
            self.add(result, self.make(kinds.SUPER, index, value))

    def _model_static(self, _: str, site: CallSite) -> None:
        self._each(site, kinds.STATIC)

    def _model_class_method(self, _: str, site: CallSite) -> None:
        self._each(site, kinds.CLASS_METHOD)

    def _model_manager(self, _: str, site: CallSite) -> None:
        self._each(site, kinds.MANAGER_FACTORY)

    def _each(self, site: CallSite, made: int) -> None:
        if var := self._argument(site, 0):
            self.subscribe(var, self._on_each, (site.result, made))

    def _on_each(self, value: int, data: tuple[int, int]) -> None:
        result, made = data
        if self.kind[value] in _WRAPPED:
            self.add(result, self.make(made, value))

    def _model_property(self, _: str, site: CallSite) -> None:
        getter, setter = self.new_var(), self.new_var()
        if var := self._argument(site, 0, "fget"):
            self.copy(var, getter)
        if var := self._argument(site, 1, "fset"):
            self.copy(var, setter)
        self.properties.append(Property(getter, setter))
        self.add(site.result, self.make(kinds.PROPERTY, len(self.properties) - 1))

    def _model_partial(self, _: str, site: CallSite) -> None:
        if function := self._argument(site, 0):
            self.partials.append(Partial(function, site.positional[1:], site.keywords))
            self.add(site.result, self.make(kinds.PARTIAL, len(self.partials) - 1))

    def _model_identity(self, name: str, site: CallSite) -> None:
        if var := self._argument(site, 0):
            self.copy(var, site.result)
        else:
            self.add(site.result, self.make(kinds.DECORATOR, name))

    def _model_wraps(self, name: str, site: CallSite) -> None:
        if name == "functools.lru_cache" and (var := self._argument(site, 0)):
            self.copy(var, site.result)
        else:
            self.add(site.result, self.make(kinds.DECORATOR, name))

    def _wrap(self, name: str, site: CallSite) -> None:
        if var := self._argument(site, 0):
            self.copy(var, site.result)
            if name in _DATACLASS:
                self.subscribe(var, self._on_dataclass, None)

    def _model_cast(self, _: str, site: CallSite) -> None:
        if var := self._argument(site, 1):
            self.copy(var, site.result)

    def _model_dataclass(self, name: str, site: CallSite) -> None:
        if var := self._argument(site, 0):
            self.copy(var, site.result)
            self.subscribe(var, self._on_dataclass, None)
        else:
            self.add(site.result, self.make(kinds.DECORATOR, name))

    def _on_dataclass(self, value: int, _: None) -> None:
        if self.kind[value] == kinds.CLASS:
            self.add_field_constructor(self.classes[self.first[value]])

    def _model_run(self, name: str, site: CallSite) -> None:
        var = self._argument(site, 0)
        if not var:
            return
        if name != "asyncio.run":
            inner = self.site(site.caller, site.line, *site.positional[1:])
            self.call_var(var, inner)
            var = inner.result
        self.subscribe(var, self.on_await, (site.result, site.caller, site.line))

    def _model_gather(self, _: str, site: CallSite) -> None:
        value, container = self.make_container("list", len(site.positional))
        for index, var in enumerate(site.positional):
            element = self.new_var()
            source = self._elements(var, site) if var < 0 else var
            if source:
                self.subscribe(source, self.on_await, (element, site.caller, site.line))
            self.put(container, index if var > 0 else None, element)
        self.add(site.result, value)
