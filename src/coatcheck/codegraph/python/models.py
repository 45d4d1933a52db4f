"""What calls out of the archive do that matters in it: builtins and a little of the library.

A call that is not described here calls something outside and brings nothing back. What is described
calls its arguments (`map`, `sorted(key=)`), hands them on (`iter`, `partial`), or says what a class
or function is (`property`, `dataclass`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from coatcheck.codegraph.disk.tables import Keys
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.container_methods import ContainerMethods
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.program import Partial, Property

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
# Declarations of the language, not calls that anybody would look for.
_SILENT = {"property", "staticmethod", "classmethod"}

_WRAPPED = {
    ObjectKind.FUNCTION,
    ObjectKind.MANAGER_MAKER,
    ObjectKind.PARTIAL,
    ObjectKind.EXTERNAL,
    ObjectKind.BUILTIN,
}

Model = Callable[["Models", str, Site], None]


class Models(ContainerMethods):
    """Knows what is outside, a little."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._models: dict[str, Model] = {}
        self._instances = Keys(self.disk, 2)
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

    def call_outside(self, value: int, site: Site) -> None:
        """Call a builtin, a method of a builtin type, or something that was imported."""
        kind = self.objects.kind[value]
        if kind is ObjectKind.METHOD_OF:
            self.call_method_of(value, site)
            return
        if kind is ObjectKind.WRAPPER:
            self._wrap(self.objects.first[value], site)
            return
        if kind is not ObjectKind.EXTERNAL and kind is not ObjectKind.BUILTIN:
            return
        name: str = self.objects.first[value]
        if not (name in _SILENT and self.sites.is_silent(site.number)):
            outside = f"<builtin>.{name}" if kind is ObjectKind.BUILTIN else name
            self.edge(site, outside)
        if name in _SPECIAL and kind is ObjectKind.BUILTIN:
            for place in site.positional:
                if place > 0:
                    self.watch(place, self._on_special, (self.words[name], site.number))
        model = self._models.get(name)
        if model is not None:
            model(self, name, site)
        elif name in _TYPES and kind is ObjectKind.BUILTIN:
            self.add(site.result, self.objects.make(ObjectKind.TYPED, _TYPES[name]))

    def _on_special(self, value: int, data: tuple[int, int]) -> None:
        if self.objects.kind[value] is ObjectKind.INSTANCE:
            name, site = self.words.at[data[0]], self.sites.at(data[1])
            for method in _SPECIAL[name]:
                inner = self.implied(method, site.runner, site.line, result=site.result)
                if self.call_method(value, method, inner):
                    break

    # --- arguments

    @staticmethod
    def _argument(site: Site, index: int, keyword: str | None = None) -> int:
        """Return the place of an argument, 0 if it is not given one by one."""
        if index < len(site.positional):
            given = site.positional[: index + 1]
            return given[index] if all(place >= 0 for place in given) else 0
        return next((place for name, place in site.keywords if keyword and name == keyword), 0)

    def _elements(self, place: int, site: Site) -> int:
        """Return a place of what iterating over an argument yields."""
        element = self.place()
        if place:
            data = (element, False, site.runner, site.line)
            self.watch(abs(place), self.on_iterate, data)
        return element

    def _collected(self, kind: str, element: int, site: Site) -> None:
        value, container = self.made_by(site, kind)
        self.copy(element, container.any)
        self.add(site.result, value)

    # --- builtins that call or hand on

    def _model_map(self, name: str, site: Site) -> None:
        function = self._argument(site, 0)
        elements = [self._elements(place, site) for place in site.positional[1:]]
        if not function:
            return
        positional = tuple(-e for e in elements) if name.endswith("starmap") else tuple(elements)
        inner = self.site(site.runner, site.line, *positional)
        self.call_place(function, inner)
        self._collected("list", inner.result, site)

    def _model_filter(self, _: str, site: Site) -> None:
        function = self._argument(site, 0)
        element = self._elements(self._argument(site, 1), site)
        if function:
            self.call_place(function, self.site(site.runner, site.line, element))
        self._collected("list", element, site)

    def _model_sorted(self, name: str, site: Site) -> None:
        elements = [place for place in site.positional if place]
        is_alone = len(elements) == 1 or name.startswith(("heapq", "itertools"))
        element = self.place()
        for place in elements[-1:] if name.startswith("heapq") else elements:
            self.copy(self._elements(place, site) if is_alone else abs(place), element)
        index = 1 if name == "itertools.groupby" else 9
        key = self._argument(site, index, "key")
        if key:
            self.call_place(key, self.site(site.runner, site.line, element))
        if name in {"min", "max"}:
            self.copy(element, site.result)
        else:
            self._collected("list", element, site)

    def _model_collect(self, name: str, site: Site) -> None:
        element = self.place()
        source = site.positional
        if name in {"itertools.islice", "iter"}:
            source = source[:1]
        if name == "iter" and source and source[0] > 0:
            self.watch(source[0], self._on_iter, (site.number,))
            return
        kind = _COLLECTING[name]
        if name in {"list", "tuple"} and len(source) == 1 and source[0] > 0:
            self.watch(source[0], self._on_same_order, (self.words[kind], site.number))
            return
        for place in source:
            self.copy(self._elements(place, site), element)
        self._collected(kind, element, site)

    def _on_iter(self, value: int, data: tuple[int]) -> None:
        site = self.sites.at(data[0])
        if self.objects.kind[value] is ObjectKind.INSTANCE:
            self.call_method(
                value, "__iter__", self.site(site.runner, site.line, result=site.result)
            )
        else:
            self.add(site.result, value)

    def _on_same_order(self, value: int, data: tuple[int, int]) -> None:
        """Copy a container whose elements stay where they are."""
        kind, site = self.words.at[data[0]], self.sites.at(data[1])
        made, container = self.made_by(site, kind)
        other = self.container_of(value)
        if other is not None and other.kind in {"list", "tuple"}:
            self.set_length(container, self.length(other))
            self.copy(other.any, container.any)
            self.copy(other.appended, container.appended)
            self.follow(other, container)
        else:
            self.iterate(value, container.any, site.runner, site.line)
        self.add(site.result, made)

    def _model_dict(self, _: str, site: Site) -> None:
        value, container = self.made_by(site, "dict")
        for place in site.positional:
            if place > 0:
                self.watch(place, self._on_dict_of, (container.number, site.number))
        for name, place in site.keywords:
            if name is None and place:
                self.spread(container, place)
            elif name is not None:
                self.put(container, name, place)
        self.add(site.result, value)

    def _on_dict_of(self, value: int, data: tuple[int, int]) -> None:
        container, site = self.containers[data[0]], self.sites.at(data[1])
        other = self.container_of(value)
        if other is not None and other.kind == "dict":
            held = self.place()
            self.add(held, value)
            self.spread(container, held)
            return
        pair = self.place()
        self.iterate(value, pair, site.runner, site.line)
        key, element = self.place(), self.place()
        for index, part in enumerate((key, element)):
            number = self.words[index]
            self.watch(pair, self.on_item, (part, number, -3, site.runner, site.line))
        self.copy(key, container.keys)
        self.copy(element, container.any)

    def _model_defaultdict(self, _: str, site: Site) -> None:
        value, container = self.made_by(site, "dict")
        factory = self._argument(site, 0)
        if factory:
            inner = self.site(site.runner, site.line)
            self.call_place(factory, inner)
            self.copy(inner.result, container.any)
        self.add(site.result, value)

    def _model_enumerate(self, _: str, site: Site) -> None:
        self._collected("list", self._tuple_of(0, self._elements(self._argument(site, 0), site)),
                        site)  # fmt: skip

    def _model_zip(self, _: str, site: Site) -> None:
        elements = [self._elements(place, site) for place in site.positional]
        self._collected("list", self._tuple_of(*elements), site)

    def _tuple_of(self, *elements: int) -> int:
        value, container = self.make_container("tuple", len(elements))
        for index, element in enumerate(elements):
            self.put(container, index, element)
        place = self.place()
        self.add(place, value)
        return place

    def _model_next(self, _: str, site: Site) -> None:
        place = self._argument(site, 0)
        if place:
            self.watch(place, self._on_next, (site.result, False, site.runner, site.line))
        if default := self._argument(site, 1):
            self.copy(default, site.result)

    def _model_reduce(self, _: str, site: Site) -> None:
        function = self._argument(site, 0)
        element = self._elements(self._argument(site, 1), site)
        total = self.place()
        self.copy(element, total)
        self.copy(site.result, total)
        if start := self._argument(site, 2):
            self.copy(start, total)
        if function:
            self.call_place(
                function, self.site(site.runner, site.line, total, element, result=site.result)
            )

    # --- attributes by name

    def _model_getattr(self, _: str, site: Site) -> None:
        target, name = self._argument(site, 0), self._argument(site, 1)
        if target and name:
            self.watch(target, self._on_getattr, (name, site.number))
        if default := self._argument(site, 2):
            self.copy(default, site.result)

    def _on_getattr(self, value: int, data: tuple[int, int]) -> None:
        name, site = data[0], self.sites.at(data[1])
        self.watch(name, self.on_attribute_name, (value, site.result, site.runner, site.line))

    def _model_setattr(self, _: str, site: Site) -> None:
        target, name, value = (self._argument(site, index) for index in range(3))
        if target and name and value:
            self.watch(name, self._on_setattr, (target, value, site.number))

    def _on_setattr(self, name: int, data: tuple[int, int, int]) -> None:
        target, value, number = data
        text = self.objects.first[name]
        if self.objects.kind[name] is ObjectKind.CONSTANT and isinstance(text, str):
            runner, line = self.sites.where(number)
            self.watch(target, self.on_store, (self.words[text], value, runner, line))

    def _model_globals(self, name: str, site: Site) -> None:
        if name == "globals" and not site.positional:
            module = self.module_of(site.runner)
            value = self.objects.make(ObjectKind.MODULE, module)
            self.add(site.result, self.objects.make(ObjectKind.NAMESPACE, value))
        elif name == "vars" and (place := self._argument(site, 0)):
            self.watch(place, self._on_vars, (site.result,))

    def _on_vars(self, value: int, data: tuple[int]) -> None:
        if self.objects.kind[value] in {ObjectKind.INSTANCE, ObjectKind.CLASS, ObjectKind.MODULE}:
            self.add(data[0], self.objects.make(ObjectKind.NAMESPACE, value))

    @abstractmethod
    def module_of(self, runner: int) -> int:
        """Return the index of the module that a definition is in (linking.py)."""

    def _model_import(self, _: str, site: Site) -> None:
        if name := self._argument(site, 0):
            self.watch(name, self._on_import, (site.number,))

    def _on_import(self, value: int, data: tuple[int]) -> None:
        text = self.objects.first[value]
        if self.objects.kind[value] is not ObjectKind.CONSTANT or not isinstance(text, str):
            return
        site = self.sites.at(data[0])
        importer = self.archive.modules[self.module_of(site.runner)]
        found = self.archive.absolute(importer, text)
        if found is not None:
            self.add(site.result, self.objects.make(ObjectKind.MODULE, found.index))
        elif text:
            self.add(site.result, self.external(text))

    # --- classes and what decorates

    def _model_type(self, _: str, site: Site) -> None:
        if len(site.positional) == 1 and site.positional[0] > 0:
            self.watch(site.positional[0], self._on_type, (site.result,))

    def _on_type(self, value: int, data: tuple[int]) -> None:
        if self.objects.kind[value] is ObjectKind.INSTANCE:
            self.add(data[0], self.objects.make(ObjectKind.CLASS, self.objects.first[value]))

    def _model_new(self, _: str, site: Site) -> None:
        if place := self._argument(site, 0):
            self.instances_of(place, site.result)

    def instances_of(self, classes: int, result: int) -> None:
        """Send instances of the classes that a place holds to another place."""
        if self._instances.add((classes, result)):
            self.watch(classes, self._on_class, (result,))

    def _on_class(self, value: int, data: tuple[int]) -> None:
        result = data[0]
        kind = self.objects.kind[value]
        if kind is ObjectKind.CLASS:
            self.add(result, self.instance(self.classes[self.objects.first[value]]))
        elif kind is ObjectKind.CONTAINER:
            self.instances_of(self.containers[self.objects.first[value]].all, result)
        elif kind is ObjectKind.BUILTIN and self.objects.first[value] in {
            "str",
            "int",
            "float",
            "bytes",
        }:
            self.add(result, self.objects.make(ObjectKind.TYPED, self.objects.first[value]))

    def _model_super(self, _: str, site: Site) -> None:
        cls, receiver = self._argument(site, 0), self._argument(site, 1)
        if cls and receiver:
            self.watch(cls, self._on_super_class, (receiver, site.result))

    def _on_super_class(self, value: int, data: tuple[int, int]) -> None:
        if self.objects.kind[value] is ObjectKind.CLASS:
            receiver, result = data
            self.watch(receiver, self.on_super, (self.objects.first[value], result))

    def on_super(self, value: int, data: tuple[int, int]) -> None:
        """Make what `super()` is for a receiver."""
        index, result = data
        if self.objects.kind[value] in {ObjectKind.INSTANCE, ObjectKind.CLASS}:
            self.add(result, self.objects.make(ObjectKind.SUPER, index, value))

    def _model_static(self, _: str, site: Site) -> None:
        self._each(site, ObjectKind.STATIC)

    def _model_class_method(self, _: str, site: Site) -> None:
        self._each(site, ObjectKind.CLASS_METHOD)

    def _model_manager(self, _: str, site: Site) -> None:
        self._each(site, ObjectKind.MANAGER_MAKER)

    def _each(self, site: Site, made: ObjectKind) -> None:
        if place := self._argument(site, 0):
            self.watch(place, self._on_each, (site.result, made))

    def _on_each(self, value: int, data: tuple[int, int]) -> None:
        result, made = data
        if self.objects.kind[value] in _WRAPPED:
            self.add(result, self.objects.make(ObjectKind(made), value))

    def _model_property(self, _: str, site: Site) -> None:
        getter, setter = self.place(), self.place()
        if place := self._argument(site, 0, "fget"):
            self.copy(place, getter)
        if place := self._argument(site, 1, "fset"):
            self.copy(place, setter)
        self.properties.append(Property(getter, setter))
        self.add(site.result, self.objects.make(ObjectKind.PROPERTY, len(self.properties) - 1))

    def _model_partial(self, _: str, site: Site) -> None:
        if function := self._argument(site, 0):
            self.partials.append(Partial(function, site.positional[1:], site.keywords))
            self.add(site.result, self.objects.make(ObjectKind.PARTIAL, len(self.partials) - 1))

    def _model_identity(self, name: str, site: Site) -> None:
        if place := self._argument(site, 0):
            self.copy(place, site.result)
        else:
            self.add(site.result, self.objects.make(ObjectKind.WRAPPER, name))

    def _model_wraps(self, name: str, site: Site) -> None:
        if name == "functools.lru_cache" and (place := self._argument(site, 0)):
            self.copy(place, site.result)
        else:
            self.add(site.result, self.objects.make(ObjectKind.WRAPPER, name))

    def _wrap(self, name: str, site: Site) -> None:
        if place := self._argument(site, 0):
            self.copy(place, site.result)
            if name in _DATACLASS:
                self.watch(place, self._on_dataclass, ())

    def _model_cast(self, _: str, site: Site) -> None:
        if place := self._argument(site, 1):
            self.copy(place, site.result)

    def _model_dataclass(self, name: str, site: Site) -> None:
        if place := self._argument(site, 0):
            self.copy(place, site.result)
            self.watch(place, self._on_dataclass, ())
        else:
            self.add(site.result, self.objects.make(ObjectKind.WRAPPER, name))

    def _on_dataclass(self, value: int, _: tuple[()]) -> None:
        if self.objects.kind[value] is ObjectKind.CLASS:
            self.gains_constructor(self.classes[self.objects.first[value]])

    def _model_run(self, name: str, site: Site) -> None:
        place = self._argument(site, 0)
        if not place:
            return
        if name != "asyncio.run":
            inner = self.site(site.runner, site.line, *site.positional[1:])
            self.call_place(place, inner)
            place = inner.result
        self.watch(place, self.on_await, (site.result, site.runner, site.line))

    def _model_gather(self, _: str, site: Site) -> None:
        value, container = self.make_container("list", len(site.positional))
        for index, place in enumerate(site.positional):
            element = self.place()
            source = self._elements(place, site) if place < 0 else place
            if source:
                self.watch(source, self.on_await, (element, site.runner, site.line))
            self.put(container, index if place > 0 else None, element)
        self.add(site.result, value)
