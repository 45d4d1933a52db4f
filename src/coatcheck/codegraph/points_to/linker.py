"""The linker: joins the summaries of an archive's files and solves the constraints.

The order of work:

1. number the variables, functions and classes of all files;
2. resolve imports, and with them the bases of classes;
3. add every other constraint and run the solver;
4. apply the fallbacks for variables that are still empty.

A file's summary stays packed until it is linked, and its constraints are dropped afterwards.
"""

from __future__ import annotations

import builtins
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.archive import Module, SourceArchive
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.calls import descendants
from coatcheck.codegraph.points_to.fallbacks import Fallbacks
from coatcheck.codegraph.points_to.mro import order
from coatcheck.codegraph.points_to.operations import NO_ARGUMENT
from coatcheck.codegraph.points_to.program import Container, LinkedClass, LinkedFunction, Named
from coatcheck.codegraph.summary import (
    DefinitionSummary,
    Element,
    Function,
    ModuleSummary,
    PackedSummary,
)

_BUILTINS = {name for name in dir(builtins) if not name.startswith("_")} | {"__import__"}
_ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
_FIELD_BASES = {"typing.NamedTuple", "pydantic.BaseModel", "msgspec.Struct"}
# The attributes that `edges` reads after the link.
_KEPT = {"call_edges", "_values"}


class LinkedProgram(NamedTuple):
    """The result of a link: the input of the graph writer."""

    modules: list[Module]
    classes: list[LinkedClass]
    # (importing module, module or import path) -> the first line
    imported: dict[tuple[int, int | str], int]
    # The calling definition, the called definition or external path, the line.
    calls: Iterable[tuple[int, int | str, int]]
    definitions: int  # the number of definitions; they are numbered from 1


class Linker(Fallbacks):
    """Links the files of an archive."""

    def __init__(self, archive: SourceArchive) -> None:
        super().__init__(archive)
        self._starts: list[int] = []
        self._definitions = 1  # definition 0 does not exist
        self._files: list[Module] = []
        self.imported: dict[tuple[int, int | str], int] = {}
        self._with_calls = True

    def link(self, *, with_calls: bool = True) -> LinkedProgram:
        """Find imports and bases, and call edges if wanted; release everything else."""
        self._with_calls = with_calls
        self._link()
        linked = LinkedProgram(
            self.archive.modules,
            self.classes,
            self.imported,
            self.edges() if with_calls else (),
            self._definitions,
        )
        kept = {name: value for name, value in vars(self).items() if name in _KEPT}
        vars(self).clear()
        vars(self).update(kept)
        return linked

    def _link(self) -> None:
        files = [(module, module.summary) for module in self.archive.modules if module.summary]
        self._files = [module for module, _ in files]
        stars = []
        for module, packed in files:
            summary = packed.load("head", "definitions", "made")
            self._declare(module, summary)
            stars.append(summary.stars)
        for (module, _), written in zip(files, stars, strict=True):
            self._find_stars(module, written)
        for module, packed in files:
            self._link_names(module, packed.load("names", "items"))
        self.run()
        self._find_bases()
        self.is_linking = False
        deferred_loads, self.deferred_loads = self.deferred_loads, []
        for value, load in deferred_loads:
            self.on_load(value, load)
        for module, packed in files:
            self._link_module(module, packed)
        self.run()
        while self.apply_decorator_fallbacks():
            self.run()
        if self._with_calls:
            self.apply_fallbacks()

    def _link_module(self, module: Module, packed: PackedSummary) -> None:
        summary = packed.load("items", *(("actions",) if self._with_calls else ()))
        for result, _, target, _, _ in summary.decorations:
            self.decorations.append((module.base + result, module.base + target))
        if self._with_calls:
            self._link_values(module, summary)
            self._link_actions(module, summary)
        packed.drop("made", "names", "items", "actions")

    def module_of(self, caller: int) -> int:
        """Return the index of a definition's module."""
        return self._files[bisect_right(self._starts, caller) - 1].index

    # --- declarations

    def _declare(self, module: Module, summary: ModuleSummary) -> None:
        module.base = base = self.new_vars(summary.variables)
        module.definitions = first = self._definitions
        module.functions, module.classes = len(self.functions), len(self.classes)
        module.public = summary.public
        module.exports = {name: base + var for name, var in summary.exports.items()}
        self._starts.append(first)
        self._definitions += len(summary.definitions)
        for function in summary.functions:
            self._add_function(module, function, summary.definitions[function.definition])
        for cls in summary.classes:
            caller = cls.definition
            while caller > 0 and summary.definitions[caller].kind == "class":
                caller = summary.definitions[caller].parent
            linked = LinkedClass(
                len(self.classes),
                first + cls.definition,
                module,
                tuple(base + var for var in cls.bases),
                base + cls.metaclass if cls.metaclass else 0,
                {name: base + var for name, var in cls.attributes},
                cls.fields,
                first + caller,
                summary.definitions[cls.definition].line,
            )
            self.classes.append(linked)

    def _add_function(
        self, module: Module, function: Function, definition: DefinitionSummary
    ) -> None:
        base = module.base

        def named(pairs: Named) -> Named:
            return tuple([(name, base + var) for name, var in pairs]) if pairs else ()

        positional = named(function.positional)
        result = base + function.result
        yields = base + function.yields if function.yields else 0
        if function.is_async or yields:
            # The result goes to the code that awaits the function, not to its caller.
            for index in function.returned_parameters:
                self.add_copy(positional[index][1], result)
        linked = LinkedFunction(
            len(self.functions),
            module.definitions + function.definition,
            definition.name,
            definition.line,
            result,
            yields,
            function.is_async,
            module.classes + function.owner if function.owner >= 0 else -1,
            self._collector(base, function.rest, "tuple"),
            self._collector(base, function.keywords, "dict"),
            positional,
            named(function.keyword_only),
            named(tuple([pair for pair in function.defaults if pair[1]])),
            function.returned_parameters,
            function.stored_parameters,
        )
        self.functions.append(linked)
        self.register_function(linked)

    def _collector(self, base: int, var: int, kind: str) -> Container | None:
        """Create the container of `*args` or `**kwargs`, if the function has it."""
        if not var:
            return None
        value, container = self.make_container(kind)
        self.add(base + var, value)
        return container

    # --- names

    def _find(self, module: Module, dots: int, name: str) -> Module | None:
        if dots:
            return self.archive.relative(module, dots, name)
        return self.archive.absolute(module, name)

    def _note_import(self, module: Module, target: int | str, line: int) -> None:
        key = (module.index, target)
        if key not in self.imported or line < self.imported[key]:
            self.imported[key] = line

    def _find_stars(self, module: Module, stars: list[tuple[int, str, int]]) -> None:
        for dots, name, line in stars:
            found = self._find(module, dots, name)
            if found is not None:
                module.stars += (found,)
                self._note_import(module, found.index, line)
            elif not dots:
                module.stars += (name,)
                self._note_import(module, name, line)

    def _link_names(self, module: Module, summary: ModuleSummary) -> None:
        base = module.base
        self.copy_all(base, summary.copies)
        for var, index in summary.function_values:
            self.add(base + var, self.make(kinds.FUNCTION, module.functions + index))
        for var, index in summary.class_values:
            self.add(base + var, self.make(kinds.CLASS, module.classes + index))
        for var, dots, name, attribute, _, line in summary.imports:
            self._link_import(module, base + var if var else 0, dots, name, attribute, line)
        for var, name in summary.unknown_names:
            self._link_unknown(module, base + var, name)
        first = module.definitions
        for result, value, attribute, caller, line in summary.loads:
            loaded = base + result if result else 0
            load = (loaded, attribute, first + caller, line)
            self.subscribe(base + value, self.on_load, load)
        for result, container, _, key_var, _, _ in summary.items:
            if key_var >= 0:
                # A base may be subscripted, as Generic[T].
                self.subscribe(base + container, self._on_generic, base + result if result else 0)

    def _on_generic(self, value: int, result: int) -> None:
        # With calls, `on_item` handles later values.
        is_alone = self.is_linking or not self._with_calls
        if is_alone and self.kind[value] in {kinds.CLASS, kinds.EXTERNAL}:
            self.on_item(value, (result, None, 0, 0, 0))

    def _link_import(
        self,
        module: Module,
        var: int,
        dots: int,
        name: str,
        attribute: str | None,
        line: int,
    ) -> None:
        found = self._find(module, dots, name)
        if found is None:
            if dots:
                return  # in the project, but not in the archive
            self._note_import(module, name, line)
            if var:
                path = name if attribute is None else f"{name}.{attribute}"
                self.add(var, self.external(path))
            return
        if attribute is None:
            self._note_import(module, found.index, line)
            if var:
                self.add(var, self.make(kinds.MODULE, found.index))
            return
        if found is module:
            # `from . import part` in the package's own file names the submodule.
            part = self.archive.submodule(module, attribute)
            if part is not None:
                self.add(var, self.make(kinds.MODULE, part.index))
                self._note_import(module, part.index, line)
                return
        self.load_from_module(found, attribute, var)
        has_name = found.exports.get(attribute) is not None
        inner = None if has_name else self.archive.submodule(found, attribute)
        target: int | str = found.index if inner is None else inner.index
        if found.summary is None and inner is None:
            target = name
        self._note_import(module, target, line)

    def _link_unknown(self, module: Module, var: int, name: str) -> None:
        for star in module.stars:
            if not isinstance(star, str):
                self.load_from_module(star, name, var)
                if self.has_name(star, name):
                    return
        if name in _BUILTINS:
            self.add(var, self.make(kinds.BUILTIN, name))
            return
        outside = [star for star in module.stars if isinstance(star, str)]
        if len(outside) == 1 and not name.startswith("_"):
            self.add(var, self.external(f"{outside[0]}.{name}"))

    def has_name(self, module: Module, name: str) -> bool:
        """Tell whether a module has a name, of its own or through `*`."""
        seen: set[int] = set()
        waiting = [module]
        while waiting:
            one = waiting.pop()
            if one.index in seen:
                continue
            seen.add(one.index)
            if one.exports.get(name) is not None:
                return True
            waiting.extend(star for star in one.stars if not isinstance(star, str))
        return False

    # --- bases

    def _find_bases(self) -> None:
        for cls in self.classes:
            for var in cls.bases:
                for value in sorted(self.values_of(var)):
                    self._add_base(cls, value)
        for cls in self.classes:
            order(cls)
        for cls in self.classes:
            self._apply_base_effects(cls)
            for var in cls.bases:
                self.subscribe(var, self._on_base, cls)

    def _add_base(self, cls: LinkedClass, value: int) -> bool:
        kind = self.kind[value]
        first = self.first[value]
        if kind == kinds.CLASS:
            parent = self.classes[first]
            if parent in cls.parents or parent is cls:
                return False
            cls.parents += (parent,)
            parent.children += (cls,)
            return True
        if kind == kinds.EXTERNAL or kind == kinds.BUILTIN:
            path = first if kind == kinds.EXTERNAL else f"<builtin>.{first}"
            if path not in cls.external_bases:
                cls.external_bases += (path,)
                return True
        return False

    def _on_base(self, value: int, cls: LinkedClass) -> None:
        """Add a base that is found late, as one that a function returns."""
        if not self._add_base(cls, value):
            return
        for one in (cls, *descendants(cls)):
            one.mro = ()
        for one in (cls, *descendants(cls)):
            order(one)
            self._apply_base_effects(one)
        self.retry_lookups(cls)

    def _apply_base_effects(self, cls: LinkedClass) -> None:
        """Recognize enums and field constructors, and call `__init_subclass__`."""
        if _ENUMS & set(cls.all_external_bases):
            cls.is_enum = True
        if _FIELD_BASES & set(cls.external_bases):
            self.add_field_constructor(cls)
        for one in cls.mro[1:]:
            var = one.attributes.get("__init_subclass__")
            if var is not None:
                for value in sorted(self.values_of(var)):
                    if self.kind[value] == kinds.FUNCTION:
                        function = self.functions[self.first[value]]
                        self.edge(self.site(cls.caller, cls.line), function.definition)
                break

    # --- all other constraints

    def _link_values(self, module: Module, summary: ModuleSummary) -> None:
        base, add, make = module.base, self.add, self.make
        for var, literal in summary.constants:
            add(base + var, make(kinds.CONSTANT, literal))
        for var, name in summary.typed:
            add(base + var, make(kinds.TYPED, name))
        for var, kind, elements in summary.containers:
            self._link_container(base, var, kind, elements)
        for var, cls in summary.instances:
            self.instances_of(base + cls, base + var)
        for result, index, first in summary.supers:
            if first:
                self.subscribe(base + first, self.on_super, (module.classes + index, base + result))
        for var, cls in summary.annotations:
            if cls:
                self.annotations.append((base + var, base + cls if cls > 0 else cls - base))

    def _link_container(
        self, base: int, var: int, kind: str, elements: tuple[Element, ...]
    ) -> None:
        is_ordered = kind in {"list", "tuple"}
        is_known = is_ordered and all(isinstance(key, int) for key, _, _ in elements)
        value, container = self.make_container(kind, len(elements) if is_known else None)
        self.add(base + var, value)
        for key, key_var, element in elements:
            moved = base + element if element else 0
            if key_var > 0:
                self.put_at(container, base + key_var, moved)
            elif key_var < 0:
                if moved:
                    self.spread(container, moved)
            else:
                self.put(container, None if kind == "set" else key, moved)

    def _link_actions(self, module: Module, summary: ModuleSummary) -> None:  # noqa: C901
        base, first, subscribe = module.base, module.definitions, self.subscribe

        def moved(var: int) -> int:
            if var > 0:
                return base + var
            return var - base if var else 0

        for result, callee, positional, keywords, caller, line in summary.calls:
            site = CallSite(
                base + result if result else self.new_var(),
                tuple([moved(var) for var in positional]) if positional else (),
                tuple([(name, moved(var)) for name, var in keywords]) if keywords else (),
                first + caller,
                line,
                moved(callee),
            )
            subscribe(base + callee, self.call, site)
        for target, attribute, source, caller, line in summary.stores:
            stored = (attribute, moved(source), first + caller, line)
            subscribe(base + target, self.on_store, stored)
        for result, container, key, key_var, caller, line in summary.items:
            var = base + key_var if key_var > 0 else key_var
            item = (moved(result), key, var, first + caller, line)
            subscribe(base + container, self.on_item, item)
        for container, key, key_var, source, caller, line in summary.item_stores:
            put = (key, moved(key_var), moved(source), first + caller, line)
            subscribe(base + container, self.on_item_store, put)
        for result, iterable, is_async, caller, line in summary.iterations:
            loop = (moved(result), is_async, first + caller, line)
            subscribe(base + iterable, self.on_iterate, loop)
        for result, awaited, caller, line in summary.awaits:
            subscribe(base + awaited, self.on_await, (moved(result), first + caller, line))
        for result, manager, is_async, caller, line in summary.contexts:
            context = (moved(result), is_async, first + caller, line)
            subscribe(base + manager, self.on_context, context)
        for result, operand, method, arguments, caller, line in summary.operators:
            argument = moved(arguments[0]) if arguments else NO_ARGUMENT
            operator = (moved(result), method, argument, first + caller, line)
            subscribe(base + operand, self.on_operator, operator)
        for var, caller, line in summary.raises:
            subscribe(base + var, self._on_raise, (first + caller, line))
        for result, decorator, target, caller, line in summary.decorations:
            decorated = CallSite(
                moved(result), (base + target,), (), first + caller, line, is_declaration=True
            )
            subscribe(base + decorator, self.call, decorated)

    def _on_raise(self, value: int, data: tuple[int, int]) -> None:
        if self.kind[value] == kinds.CLASS:
            self.call(value, self.site(*data))
