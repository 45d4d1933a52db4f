"""Calls: which function runs, where the arguments go, what is returned."""

from __future__ import annotations

from abc import abstractmethod

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.attributes import Attributes
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.program import Container, LinkedClass, LinkedFunction

MAX_PARTIAL_DEPTH = 5


class CallResolver(Attributes):
    """Calls of values."""

    # Whether a class without a constructor has an implicit one, as in most languages.
    implicit_constructors = False

    @abstractmethod
    def call_outside(self, value: int, site: CallSite) -> None:
        """Call an object from outside the archive (models.py)."""

    def call(self, value: int, site: CallSite) -> None:
        """Call a value, once per call site."""
        if site.mark_called(value):
            kind = self.kind[value]
            first = self.first[value]
            if kind == kinds.FUNCTION:
                self.call_function(self.functions[first], None, site)
            elif kind == kinds.BOUND:
                self._call_bound(first, self.second[value], site)
            elif kind == kinds.CLASS:
                self._construct(self.classes[first], site)
            elif kind == kinds.INSTANCE:
                self.call_method(value, "__call__", site)
            elif kind == kinds.PARTIAL:
                self._call_partial(first, site)
            elif kind == kinds.MANAGER_FACTORY:
                self._call_manager_factory(first, None, site)
            elif kind == kinds.STATIC:
                self.call(first, site)
            else:
                self.call_outside(value, site)

    def _call_partial(self, index: int, site: CallSite) -> None:
        if site.depth > MAX_PARTIAL_DEPTH:
            return
        partial = self.partials[index]
        merged = CallSite(
            site.result,
            partial.positional + site.positional,
            partial.keywords + site.keywords,
            site.caller,
            site.line,
            site.callee,
            depth=site.depth + 1,
        )
        self.call_var(partial.function, merged)

    def _call_bound(self, value: int, receiver: int, site: CallSite) -> None:
        kind = self.kind[value]
        if kind == kinds.FUNCTION:
            self.call_function(self.functions[self.first[value]], receiver, site)
        elif kind == kinds.MANAGER_FACTORY:
            self._call_manager_factory(self.first[value], receiver, site)
        else:
            self.call(value, site)
            if kind == kinds.BUILTIN and self.first[value] == "type.__call__":
                self._make_instance(self.classes[self.first[receiver]], site)

    def _call_manager_factory(self, function: int, receiver: int | None, site: CallSite) -> None:
        if self.kind[function] == kinds.FUNCTION:
            linked = self.functions[self.first[function]]
            self.call_function(linked, receiver, site.clone(self.new_var()))
            self.add(site.result, self.make(kinds.MANAGER, linked.index))

    # --- functions

    def call_function(self, function: LinkedFunction, receiver: int | None, site: CallSite) -> None:
        """Call a function, with the receiver as its first argument if there is one."""
        self.edge(site, function.definition)
        arguments = self._bind(function, receiver, site)
        if function.yields:
            self.add(site.result, self.make(kinds.GENERATOR, function.index))
            return
        if function.is_async:
            self.add(site.result, self.make(kinds.COROUTINE, function.index))
            return
        self.copy(function.result, site.result)
        for index in function.returned_parameters:
            name, parameter = function.positional[index]
            if index == 0 and receiver is not None:
                self.add(site.result, receiver)
            else:
                self.copy(arguments.get(name, parameter), site.result)

    def _bind(  # noqa: C901, PLR0912
        self, function: LinkedFunction, receiver: int | None, site: CallSite
    ) -> dict[str, int]:
        """Copy arguments to parameters; return the arguments known one by one."""
        arguments: dict[str, int] = {}
        parameters = function.positional
        index = 0
        is_known = True
        if receiver is not None:
            index = 1
            if parameters:
                self.add(parameters[0][1], receiver)
            elif function.rest:
                self.add(self.element(function.rest, 0), receiver)
        for var in site.positional:
            if var < 0:
                is_known = False
                self.subscribe(-var, self._on_star, (function, index, site))
                continue
            if index < len(parameters):
                name, parameter = parameters[index]
                arguments[name] = var
                if var:
                    self.copy(var, parameter)
            elif function.rest and var:
                self.copy(var, self.element(function.rest, index - len(parameters)))
            index += 1
        for keyword, var in site.keywords:
            if keyword is None:
                is_known = False
                if var:
                    self.subscribe(var, self._on_double_star, function)
            elif keyword in function.by_name:
                arguments[keyword] = var
                if var:
                    self.copy(var, function.by_name[keyword])
            elif function.keywords and var:
                self.put(function.keywords, keyword, var)
        for name, default in function.defaults:
            if name not in arguments:
                if is_known:
                    arguments[name] = default
                self.copy(default, function.by_name[name])
        if function.stored_parameters:
            self._store_arguments(function, receiver, arguments, site)
        return arguments

    def _store_arguments(
        self,
        function: LinkedFunction,
        receiver: int | None,
        arguments: dict[str, int],
        site: CallSite,
    ) -> None:
        """Store the arguments of this call on this receiver, not those of all calls on all."""
        # The summary does not say on which line of the function the store is.
        caller, line = function.definition, function.line
        for attribute, name in function.stored_parameters:
            source = arguments.get(name) or function.by_name[name]
            data = (attribute, source, caller, line)
            if receiver is not None:
                self.on_store(receiver, data)
            elif site.positional and site.positional[0] > 0:
                self.subscribe(site.positional[0], self.on_store, data)

    def _on_star(self, value: int, data: tuple[LinkedFunction, int, CallSite]) -> None:
        """Spread `*value` over the parameters from an index on."""
        function, start, site = data
        container = self.container_of(value)
        parameters = function.positional[start:]
        rest = function.rest
        if container is None or container.kind in {"dict", "set"}:
            every = self.new_var()
            self.iterate(value, every, site.caller, site.line)
            for _, parameter in parameters:
                self.copy(every, parameter)
            if rest is not None:
                self.copy(every, rest.any)
            return
        length = container.length
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
        """Pass `*args` on; elements keep their order."""
        for key in range(8):
            self.copy(self.element(source, skipped + key), self.element(target, key))

    def _on_double_star(self, value: int, function: LinkedFunction) -> None:
        container = self.container_of(value)
        if container is None or container.kind != "dict":
            return
        for name, parameter in function.by_name.items():
            self.get(container, name, parameter)
        if function.keywords:
            rest = function.keywords
            for key, var in tuple(container.elements.items()):
                if key not in function.by_name:
                    self.copy(var, self.element(rest, key))
            self.copy(container.any, rest.any)

    # --- classes

    def _construct(self, cls: LinkedClass, site: CallSite) -> None:
        if self._has_metaclass_call(cls, site):
            self.add(site.result, self.instance(cls))
            return
        self._make_instance(cls, site)

    def _has_metaclass_call(self, cls: LinkedClass, site: CallSite) -> bool:
        """Call the metaclass's `__call__` instead; tell whether there is one."""
        for one in cls.mro:
            for value in self.values_of(one.metaclass):
                if self.kind[value] == kinds.CLASS:
                    var = self.classes[self.first[value]].find("__call__")
                    if var is not None:
                        self.subscribe(var, self._on_metaclass_call, (cls, site))
                        return True
        return False

    def _make_instance(self, cls: LinkedClass, site: CallSite) -> None:
        instance = self.instance(cls)
        if cls.is_enum:
            self.add(site.result, instance)
            return
        maker = cls.find("__new__")
        if maker is not None:
            self.subscribe(maker, self._on_new, (cls, site))
        self.add(site.result, instance)
        cls.constructions.append(site)
        self._initialize(cls, site)

    def _initialize(self, cls: LinkedClass, site: CallSite) -> None:
        for one in cls.mro:
            if "__init__" in one.attributes:
                # The call returns the instance, not what `__init__` returns.
                self.call_method(self.instance(cls), "__init__", site.clone(self.new_var()))
                return
            if one.has_field_constructor:
                self._assign_fields(cls, one, site)
                return
        if self.implicit_constructors:
            self.edge(site, cls.definition)

    def _on_new(self, value: int, data: tuple[LinkedClass, CallSite]) -> None:
        cls, site = data
        if self.kind[value] == kinds.STATIC:
            value = self.first[value]
        if self.kind[value] == kinds.FUNCTION:
            receiver = self.make(kinds.CLASS, cls.index)
            self.call_function(self.functions[self.first[value]], receiver, site)

    def _on_metaclass_call(self, value: int, data: tuple[LinkedClass, CallSite]) -> None:
        cls, site = data
        if self.kind[value] == kinds.FUNCTION:
            receiver = self.make(kinds.CLASS, cls.index)
            function = self.functions[self.first[value]]
            self.call_function(function, receiver, site.clone(self.new_var()))

    def add_field_constructor(self, cls: LinkedClass) -> None:
        """Give a class a constructor made from its fields, as for a dataclass."""
        if not cls.has_field_constructor and "__init__" not in cls.attributes:
            cls.has_field_constructor = True
            for one in (cls, *descendants(cls)):
                for site in tuple(one.constructions):
                    self._initialize(one, site)

    def _assign_fields(self, cls: LinkedClass, maker: LinkedClass, site: CallSite) -> None:
        self.edge(site, maker.definition)
        instance = self.instance(cls)
        fields = dict.fromkeys(name for one in reversed(cls.mro) for name in one.fields)
        for name, var in zip(fields, site.positional, strict=False):
            if var > 0:
                self.copy(var, self.field(instance, name))
        for keyword, var in site.keywords:
            if keyword is not None and var:
                self.copy(var, self.field(instance, keyword))
        self.call_method(instance, "__post_init__", self.site(site.caller, site.line))


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
