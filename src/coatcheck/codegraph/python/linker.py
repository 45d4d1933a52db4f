"""Linking an archive: from what each file says to who calls whom.

In order: places for all files; imports, which name the bases of classes; then everything else,
until nothing new arrives anywhere; then the beliefs that hold only where nothing is known. What a
file says is on a shelf until it is linked, and is forgotten then.
"""

from __future__ import annotations

import builtins
from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.queues import Rows
from coatcheck.codegraph.python.archive import Module, SourceArchive
from coatcheck.codegraph.python.bases import order
from coatcheck.codegraph.python.calls import descendants
from coatcheck.codegraph.python.fallbacks import Beliefs
from coatcheck.codegraph.python.functions import LinkedFunction, Named
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.operations import NO_ARGUMENT
from coatcheck.codegraph.python.program import LinkedClass
from coatcheck.codegraph.python.summary import (
    DefinitionSummary,
    Element,
    Function,
    PythonSummary,
    Shelved,
)

_BUILTINS = {name for name in dir(builtins) if not name.startswith("_")} | {"__import__"}
_ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
# What the graph is drawn from.
_DRAWN = {"archive", "classes", "imported", "sites", "words", "_holds", "disk"}
_FIELD_BASES = {"typing.NamedTuple", "pydantic.BaseModel", "msgspec.Struct"}


class LinkedProgram(NamedTuple):
    """What the graph is drawn from, once everything else is let go of."""

    modules: list[Module]
    classes: list[LinkedClass]
    # (importing module, module or import path) -> the first line
    imported: dict[tuple[int, int | str], int]
    # The calling definition, the called definition or path outside, the line.
    calls: Iterable[tuple[int, int | str, int]]
    definitions: int  # how many there are, from 1 on


class Linker(Beliefs):
    """Links the files of an archive."""

    def __init__(self, archive: SourceArchive, disk: Disk | None = None) -> None:
        super().__init__(archive, disk)
        self._starts: list[int] = []
        self._definitions = 1  # 0 is nobody
        self._files: list[Module] = []
        self.imported: dict[tuple[int, int | str], int] = {}
        self._with_calls = True

    def link(self, *, with_calls: bool = True) -> LinkedProgram:
        """Find imports and bases, and with them who calls whom, and let go of all the rest."""
        self._with_calls = with_calls
        self._link()
        definitions = self._definitions
        kept = {name: value for name, value in vars(self).items() if name in _DRAWN}
        vars(self).clear()
        vars(self).update(kept)
        calls = self.edges() if with_calls else ()
        return LinkedProgram(self.archive.modules, self.classes, self.imported, calls, definitions)

    def _link(self) -> None:
        files = [(module, module.summary) for module in self.archive.modules if module.summary]
        self._files = [module for module, _ in files]
        for module, summary in files:
            self._make_room(module, summary.take("head", "definitions", "made"))
            self.take_breath()
        for module, summary in files:
            self._find_stars(module, summary.take("head"))
        for module, summary in files:
            self._link_names(module, summary.take("names", "items"))
            self.take_breath()
        self.run()
        self._find_bases()
        self.is_linking = False
        put_off, self.put_off = self.put_off, Rows(self.disk, 5)
        for value, *load in put_off:
            self.on_load(value, (load[0], load[1], load[2], load[3]))
            self.breathe()
        for module, summary in files:
            self._link_rest(module, summary)
            self.take_breath()
        self.run()
        while self.settle_decorations():
            self.run()
        if self._with_calls:
            self.settle()

    def _link_rest(self, module: Module, shelved: Shelved) -> None:
        summary = shelved.take("items", *(("actions",) if self._with_calls else ()))
        for result, _, target, _, _ in summary.decorations:
            self.decorations.append(module.base + result, module.base + target)
        if self._with_calls:
            self._link_values(module.base, module.definitions, summary)
            self._link_actions(module, summary)

    def module_of(self, runner: int) -> int:
        """Return the index of the module that a definition is in."""
        return self._files[bisect_right(self._starts, runner) - 1].index

    # --- places

    def _make_room(self, module: Module, summary: PythonSummary) -> None:
        module.base = base = self.places(summary.places)
        module.definitions = first = self._definitions
        module.functions, module.classes = self.functions.count, len(self.classes)
        module.public = summary.public
        self._starts.append(first)
        self._definitions += len(summary.definitions)
        self.set_exports(module, summary.exports)
        for function in summary.functions:
            self._add_function(module, function, summary.definitions[function.definition])
        for cls in summary.classes:
            runner = cls.definition
            while runner > 0 and summary.definitions[runner].kind == "class":
                runner = summary.definitions[runner].parent
            linked = LinkedClass(
                len(self.classes),
                first + cls.definition,
                module,
                tuple(base + place for place in cls.bases),
                base + cls.metaclass if cls.metaclass else 0,
                cls.fields,
                first + runner,
                summary.definitions[cls.definition].line,
            )
            self.classes.append(linked)
            for name, place in cls.attributes:
                self.set_attribute(linked, name, base + place)

    def _add_function(
        self, module: Module, function: Function, definition: DefinitionSummary
    ) -> None:
        base = module.base

        def moved(place: int) -> int:
            return base + place if place else 0

        def named(pairs: Named) -> Named:
            return tuple((name, base + place) for name, place in pairs)

        positional = named(function.positional)
        result, yields = base + function.result, moved(function.yields)
        if function.is_async or yields:
            # What it returns reaches whoever awaits it, not whoever calls it.
            for index in function.passes:
                self.copy_once(positional[index][1], result)
        linked = LinkedFunction(
            self.functions.count,
            module.definitions + function.definition,
            definition.name,
            definition.line,
            moved(function.rest),
            moved(function.keywords),
            result,
            yields,
            function.is_async,
            module.classes + function.owner if function.owner >= 0 else -1,
            self._container_at(moved(function.rest), "tuple"),
            self._container_at(moved(function.keywords), "dict"),
            positional,
            named(function.keyword_only),
            named(tuple(pair for pair in function.defaults if pair[1])),
            function.passes,
            function.keeps,
        )
        self.functions.add(linked)
        self.believe_of(linked)

    def _container_at(self, place: int, kind: str) -> int:
        """Put what takes the arguments that no parameter takes at a place, if there is one."""
        if not place:
            return -1
        value, container = self.make_container(kind)
        self.add(place, value)
        return container.number

    # --- names

    def _find(self, module: Module, dots: int, name: str) -> Module | None:
        if dots:
            return self.archive.relative(module, dots, name)
        return self.archive.absolute(module, name)

    def _note_import(self, module: Module, target: int | str, line: int) -> None:
        key = (module.index, target)
        if key not in self.imported or line < self.imported[key]:
            self.imported[key] = line

    def _find_stars(self, module: Module, summary: PythonSummary) -> None:
        for dots, name, line in summary.stars:
            found = self._find(module, dots, name)
            if found is not None:
                module.stars += (found,)
                self._note_import(module, found.index, line)
            elif not dots:
                module.stars += (name,)
                self._note_import(module, name, line)

    def _link_names(self, module: Module, summary: PythonSummary) -> None:
        base = module.base
        self.copy_all(base, summary.copies)
        for place, index in summary.function_values:
            self.add(base + place, self.objects.make(ObjectKind.FUNCTION, module.functions + index))
        for place, index in summary.class_values:
            self.add(base + place, self.objects.make(ObjectKind.CLASS, module.classes + index))
        for place, dots, name, attribute, _, line in summary.imports:
            self._link_import(module, base + place if place else 0, dots, name, attribute, line)
        for place, name in summary.unknown_names:
            self._link_unknown(module, base + place, name)
        first, words = module.definitions, self.words
        for result, value, attribute, runner, line in summary.loads:
            loaded = base + result if result else 0
            load = (loaded, words[attribute], first + runner, line)
            self.watch(base + value, self.on_load, load)
        for result, container, _, key_place, _, _ in summary.items:
            if key_place >= 0:
                # Bases may be written as Generic[T].
                self.watch(base + container, self._on_generic, (base + result if result else 0,))

    def _on_generic(self, value: int, data: tuple[int]) -> None:
        # Later, where there are calls, `on_item` is told as well.
        is_alone = self.is_linking or not self._with_calls
        if is_alone and self.objects.kind[value] in {ObjectKind.CLASS, ObjectKind.EXTERNAL}:
            self.on_item(value, (data[0], self.words[None], 0, 0, 0))

    def _link_import(
        self,
        module: Module,
        place: int,
        dots: int,
        name: str,
        attribute: str | None,
        line: int,
    ) -> None:
        found = self._find(module, dots, name)
        if found is None:
            if dots:
                return  # of the archive, but not in it
            self._note_import(module, name, line)
            if place:
                path = name if attribute is None else f"{name}.{attribute}"
                self.add(place, self.external(path))
            return
        if attribute is None:
            self._note_import(module, found.index, line)
            if place:
                self.add(place, self.objects.make(ObjectKind.MODULE, found.index))
            return
        if found is module:
            # `from . import part` in the package's own file: the name is what is being made here.
            part = self.archive.submodule(module, attribute)
            if part is not None:
                self.add(place, self.objects.make(ObjectKind.MODULE, part.index))
                self._note_import(module, part.index, line)
                return
        self.load_from_module(found, attribute, place)
        has_name = self.export(found, attribute) is not None
        inner = None if has_name else self.archive.submodule(found, attribute)
        target: int | str = found.index if inner is None else inner.index
        if found.summary is None and inner is None:
            target = name
        self._note_import(module, target, line)

    def _link_unknown(self, module: Module, place: int, name: str) -> None:
        for star in module.stars:
            if not isinstance(star, str):
                self.load_from_module(star, name, place)
                if self.has_name(star, name):
                    return
        if name in _BUILTINS:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, name))
            return
        outside = [star for star in module.stars if isinstance(star, str)]
        if len(outside) == 1 and not name.startswith("_"):
            self.add(place, self.external(f"{outside[0]}.{name}"))

    def has_name(self, module: Module, name: str) -> bool:
        """Tell whether a module has a name, of its own or through `*`."""
        seen: set[int] = set()
        waiting = [module]
        while waiting:
            one = waiting.pop()
            if one.index in seen:
                continue
            seen.add(one.index)
            if self.export(one, name) is not None:
                return True
            waiting.extend(star for star in one.stars if not isinstance(star, str))
        return False

    # --- bases

    def _find_bases(self) -> None:
        for cls in self.classes:
            for place in cls.bases:
                for value in sorted(self.held(place)):
                    self._add_base(cls, value)
        for cls in self.classes:
            order(cls)
        for cls in self.classes:
            self._note_sort(cls)
            for place in cls.bases:
                self.watch(place, self._on_base, (cls.index,))

    def _add_base(self, cls: LinkedClass, value: int) -> bool:
        kind = self.objects.kind[value]
        first = self.objects.first[value]
        if kind is ObjectKind.CLASS:
            parent = self.classes[first]
            if parent in cls.parents or parent is cls:
                return False
            cls.parents += (parent,)
            parent.children += (cls,)
            return True
        if kind is ObjectKind.EXTERNAL or kind is ObjectKind.BUILTIN:
            path = first if kind is ObjectKind.EXTERNAL else f"<builtin>.{first}"
            if path not in cls.outside:
                cls.outside += (path,)
                return True
        return False

    def _on_base(self, value: int, data: tuple[int]) -> None:
        """Take in a base that is known only now, as one that a function returns."""
        cls = self.classes[data[0]]
        if not self._add_base(cls, value):
            return
        for one in (cls, *descendants(cls)):
            one.line_of_bases = ()
        for one in (cls, *descendants(cls)):
            order(one)
            self._note_sort(one)
        self.answer_again(cls)

    def _note_sort(self, cls: LinkedClass) -> None:
        if _ENUMS & set(cls.all_outside):
            cls.is_enum = True
        if _FIELD_BASES & set(cls.outside):
            self.gains_constructor(cls)
        for one in cls.line_of_bases[1:]:
            place = self.own_attribute(one, "__init_subclass__")
            if place is not None:
                for value in sorted(self.held(place)):
                    if self.objects.kind[value] is ObjectKind.FUNCTION:
                        function = self.functions[self.objects.first[value]]
                        self.edge(self.site(cls.runner, cls.line), function.definition)
                break

    # --- everything else

    def _link_values(self, base: int, start: int, summary: PythonSummary) -> None:
        for place, written in summary.constants:
            self.add(base + place, self.objects.make(ObjectKind.CONSTANT, written))
        for place, name in summary.typed:
            self.add(base + place, self.objects.make(ObjectKind.TYPED, name))
        for place, kind, elements in summary.containers:
            self._link_container(base, place, kind, elements)
        for place, cls in summary.instances:
            self.instances_of(base + cls, base + place)
        for result, index, first in summary.supers:
            if first:
                owner = self.module_at(start).classes + index
                self.watch(base + first, self.on_super, (owner, base + result))
        for place, cls in summary.hints:
            if cls:
                self.hints.append(base + place, base + cls if cls > 0 else cls - base)

    def module_at(self, start: int) -> Module:
        """Return the module whose definitions start there."""
        return self.archive.modules[self.module_of(start)]

    def _link_container(
        self, base: int, place: int, kind: str, elements: tuple[Element, ...]
    ) -> None:
        is_ordered = kind in {"list", "tuple"}
        is_known = is_ordered and all(isinstance(key, int) for key, _, _ in elements)
        value, container = self.make_container(kind, len(elements) if is_known else None)
        self.add(base + place, value)
        for key, key_place, element in elements:
            moved = base + element if element else 0
            if key_place > 0:
                self.put_at(container, base + key_place, moved)
            elif key_place < 0:
                if moved:
                    self.spread(container, moved)
            else:
                self.put(container, None if kind == "set" else key, moved)

    def _link_actions(self, module: Module, summary: PythonSummary) -> None:  # noqa: C901
        base, first, words = module.base, module.definitions, self.words

        def moved(place: int) -> int:
            if place > 0:
                return base + place
            return place - base if place else 0

        for result, callee, positional, keywords, runner, line in summary.calls:
            site = self.sites.add(
                base + result if result else self.place(),
                tuple(map(moved, positional)),
                tuple((name, moved(place)) for name, place in keywords),
                first + runner,
                line,
                moved(callee),
            )
            self.watch(base + callee, self.on_call, (site,))
        for target, attribute, source, runner, line in summary.stores:
            stored = (words[attribute], moved(source), first + runner, line)
            self.watch(base + target, self.on_store, stored)
        for result, container, key, key_place, runner, line in summary.items:
            place = base + key_place if key_place > 0 else key_place
            item = (moved(result), words[key], place, first + runner, line)
            self.watch(base + container, self.on_item, item)
        for container, key, key_place, source, runner, line in summary.item_stores:
            put = (words[key], moved(key_place), moved(source), first + runner, line)
            self.watch(base + container, self.on_item_store, put)
        for result, iterable, is_async, runner, line in summary.iterations:
            loop = (moved(result), is_async, first + runner, line)
            self.watch(base + iterable, self.on_iterate, loop)
        for result, awaited, runner, line in summary.awaits:
            self.watch(base + awaited, self.on_await, (moved(result), first + runner, line))
        for result, manager, is_async, runner, line in summary.contexts:
            context = (moved(result), is_async, first + runner, line)
            self.watch(base + manager, self.on_context, context)
        for result, operand, method, arguments, runner, line in summary.operators:
            argument = moved(arguments[0]) if arguments else NO_ARGUMENT
            operator = (moved(result), words[method], argument, first + runner, line)
            self.watch(base + operand, self.on_operator, operator)
        for place, runner, line in summary.raises:
            self.watch(base + place, self._on_raise, (first + runner, line))
        for result, decorator, target, runner, line in summary.decorations:
            decorated = self.sites.add(moved(result), (base + target,), (), first + runner, line)
            self.sites.silence(decorated)
            self.watch(base + decorator, self.on_call, (decorated,))

    def _on_raise(self, value: int, data: tuple[int, int]) -> None:
        if self.objects.kind[value] is ObjectKind.CLASS:
            self.call(value, self.site(*data))
