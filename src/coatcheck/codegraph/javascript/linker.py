"""Linking files of JavaScript and TypeScript: which file an import finds, and what objects do."""

from __future__ import annotations

import posixpath

from coatcheck.codegraph.javascript.expressions import CLASS_METHOD, PROPERTY
from coatcheck.codegraph.javascript.statements import WHOLE
from coatcheck.codegraph.python.archive import Module, SourceArchive
from coatcheck.codegraph.python.attributes import Load
from coatcheck.codegraph.python.call_sites import Site
from coatcheck.codegraph.python.containers import ContainerValue
from coatcheck.codegraph.python.functions import LinkedFunction
from coatcheck.codegraph.python.linker import Linker
from coatcheck.codegraph.python.objects import ObjectKind
from coatcheck.codegraph.python.summary import Shelved

_ENDINGS = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".d.ts")
_GLOBALS_WORDS = (
    "console Math JSON Object Array Promise Number String Boolean Symbol Map Set WeakMap "
    "WeakSet Date RegExp Error TypeError RangeError SyntaxError EvalError URIError Reflect "
    "Proxy BigInt Intl parseInt parseFloat isNaN isFinite encodeURIComponent "
    "decodeURIComponent encodeURI decodeURI setTimeout setInterval setImmediate clearTimeout "
    "clearInterval clearImmediate queueMicrotask structuredClone fetch process Buffer "
    "globalThis window document navigator localStorage sessionStorage URL URLSearchParams "
    "AbortController TextEncoder TextDecoder requestAnimationFrame alert performance crypto "
    "Function Int8Array Uint8Array Uint16Array Int32Array Uint32Array Float32Array "
    "Float64Array ArrayBuffer DataView eval"
)
_GLOBALS = frozenset(_GLOBALS_WORDS.split())
# Methods of arrays that call their first argument with an element, and what they hand back.
_CALLING = {
    "map": "made", "flatMap": "made", "forEach": None, "filter": "same", "find": "element",
    "findLast": "element", "some": None, "every": None, "findIndex": None, "sort": "same",
}  # fmt: skip


class JavaScriptArchive(SourceArchive):
    """Finds modules by the path that an import writes."""

    def __init__(self, summaries: dict[str, Shelved], other_files: set[str]) -> None:
        del other_files
        self.modules = []
        self._by_path: dict[str, Module] = {}
        for path in sorted(summaries):
            stem = path.rpartition(".")[0]
            name = stem.removesuffix("/index").replace("/", ".")
            module = Module(len(self.modules), path, name, summaries[path], is_package=False)
            self.modules.append(module)
            self._by_path[path] = module

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return None: a module of JavaScript holds no others."""
        del package, name
        return None

    def absolute(self, importer: Module, name: str) -> Module | None:
        """Return the file that a specifier names; None for packages."""
        if not name.startswith("."):
            return None
        path = posixpath.normpath(posixpath.join(importer.folder, name))
        stem, _, ending = path.rpartition(".")
        candidates = [path, *(path + ending for ending in _ENDINGS)]
        if ending in {"js", "mjs", "cjs", "jsx"}:
            # TypeScript names the file that will be there once it is compiled.
            candidates.extend(stem + other for other in _ENDINGS)
        candidates.extend(f"{path}/index{other}" for other in _ENDINGS)
        return next((self._by_path[one] for one in candidates if one in self._by_path), None)


class JavaScriptLinker(Linker):
    """Links the files of an archive."""

    makes_all_constructors = True

    def _link_unknown(self, module: Module, place: int, name: str) -> None:
        del module
        if name == CLASS_METHOD:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, "classmethod"))
        elif name == PROPERTY:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, "property"))
        elif name in _GLOBALS:
            self.add(place, self.objects.make(ObjectKind.BUILTIN, name))

    def _link_import(
        self, module: Module, place: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        found = self._find(module, dots, name)
        if found is None and name.startswith("."):
            return  # of the archive, but not in it
        if found is None and attribute == "default" and place:
            self._note_import(module, name, line)
            self.add(place, self.external(name))
            return
        super()._link_import(module, place, dots, name, attribute, line)
        whole = self.export(found, WHOLE) if place and found is not None else None
        if found is not None and whole is not None:
            has_name = attribute is not None and self.export(found, attribute) is not None
            if attribute is None or (attribute == "default" and not has_name):
                self.copy(whole, place)
            elif not has_name:
                self.watch(whole, self.on_load, (place, self.words[attribute], 0, line))

    # --- objects

    def on_load(self, value: int, load: Load) -> None:
        """Send `value.attribute` to the load's result."""
        result, attribute = load[0], self.words.at[load[1]]
        kind = self.objects.kind[value]
        container = self.container_of(value)
        if container is not None and container.kind == "object":
            self.get(container, attribute, result)
        elif (kind in _CALLABLE and attribute in {"call", "apply", "bind"}) or (
            kind is ObjectKind.COROUTINE and attribute in {"then", "catch", "finally"}
        ):
            self.add(result, self.objects.make(ObjectKind.METHOD_OF, value, attribute))
        else:
            super().on_load(value, load)

    def on_store(self, value: int, data: tuple[int, int, int, int]) -> None:
        """Store a place's values in `value.attribute`."""
        container = self.container_of(value)
        if container is not None and container.kind == "object":
            self.put(container, self.words.at[data[0]], data[1])
        else:
            super().on_store(value, data)

    def on_item(self, value: int, data: tuple[int, int, int, int, int]) -> None:
        """Send `value[key]` to a place."""
        result, number, _, runner, line = data
        key = self.words.at[number]
        if isinstance(key, str) and self.objects.kind[value] in {
            ObjectKind.INSTANCE,
            ObjectKind.MODULE,
        }:
            self.on_load(value, (result, number, runner, line))
        else:
            super().on_item(value, data)

    def iterate(self, value: int, result: int, runner: int, line: int) -> None:
        """Send what iterating over a value yields to a place."""
        container = self.container_of(value)
        if container is None or container.kind != "object":
            super().iterate(value, result, runner, line)

    # --- calls

    def call_function(self, function: LinkedFunction, receiver: int | None, site: Site) -> None:
        """Call a function; a method that is called on nothing has no `this`."""
        if receiver is None and function.owner >= 0:
            site = self.sites.new(
                site.result, (0, *site.positional), site.keywords, site.runner, site.line,
                self.sites.callee(site.number),
            )  # fmt: skip
        super().call_function(function, receiver, site)

    def call_outside(self, value: int, site: Site) -> None:
        """Call a global, or something that was imported."""
        kind = self.objects.kind[value]
        name = self.objects.first[value]
        if kind is ObjectKind.METHOD_OF:
            self.call_method_of(value, site)
        elif kind is ObjectKind.EXTERNAL:
            self.edge(site, name.removesuffix(".__init__"))
        elif kind is ObjectKind.BUILTIN and self.sites.is_silent(site.number):
            super().call_outside(value, site)
        elif kind is ObjectKind.BUILTIN:
            self.edge(site, f"<builtin>.{name}")
            self._call_global(name, site)

    def _call_global(self, name: str, site: Site) -> None:
        first = site.positional[0] if site.positional else 0
        if name == "Promise" and first > 0:
            self.call_place(first, self.site(site.runner, site.line, 0, 0))
        elif name == "Promise.all" and first > 0:
            value, container = self.made_by(site, "list")
            element = self._elements(first, site)
            self.watch(element, self.on_await, (container.any, site.runner, site.line))
            self.add(site.result, value)
        elif name in {"Promise.resolve", "Object.freeze", "Object.assign"} and first > 0:
            self.copy(first, site.result)
        elif name in {"Object.values", "Array.from", "Set", "Array.of"} and first > 0:
            value, container = self.made_by(site, "list")
            self.watch(first, self._on_values, (container.number,))
            self.add(site.result, value)
        elif name == "Map":
            value, _ = self.made_by(site, "dict")
            self.add(site.result, value)

    def _on_values(self, value: int, data: tuple[int]) -> None:
        other = self.container_of(value)
        if other is not None:
            self.copy(other.all, self.containers[data[0]].any)

    def on_await(self, value: int, data: tuple[int, int, int]) -> None:
        """Send what `await value` comes to, to a place; what is no promise is itself."""
        if self.objects.kind[value] in {ObjectKind.COROUTINE, ObjectKind.GENERATOR}:
            super().on_await(value, data)
        else:
            self.add(data[0], value)

    def call_method_of(self, value: int, site: Site) -> None:  # noqa: C901
        """Call a method of an array, a map, a promise, a function or a text."""
        owner, name = self.objects.first[value], self.objects.second[value]
        kind = self.objects.kind[owner]
        container = self.container_of(owner)
        first = site.positional[0] if site.positional and site.positional[0] > 0 else 0
        if kind in _CALLABLE:
            self._call_function_method(owner, name, site)
        elif kind is ObjectKind.COROUTINE:
            self._then(owner, name, first, site)
        elif kind is ObjectKind.PROPERTY:
            super().call_method_of(value, site)
        elif container is not None and container.kind == "list":
            self.edge(site, f"<builtin>.Array.{name}")
            self._call_of_array(owner, container, name, site)
        elif container is not None:
            self.edge(site, f"<builtin>.Map.{name}")
            if name == "set" and len(site.positional) == 2 and site.positional[0] > 0:
                self.put_at(container, site.positional[0], site.positional[1])
            elif name == "get" and first:
                self.get_at(container, first, site.result)
            elif name == "values":
                made, view = self.made_by(site, "list")
                self.copy(container.all, view.any)
                self.add(site.result, made)
        elif kind is ObjectKind.CONSTANT or kind is ObjectKind.TYPED:
            is_text = self._type_name(owner) == "str"
            self.edge(site, f"<builtin>.{'String' if is_text else 'Number'}.{name}")
            if is_text and name not in {"split", "indexOf", "charCodeAt", "match", "length"}:
                self.add(site.result, self.objects.make(ObjectKind.TYPED, "str"))
            elif name == "split":
                made, view = self.made_by(site, "list")
                self.add(view.any, self.objects.make(ObjectKind.TYPED, "str"))
                self.add(site.result, made)

    def _call_function_method(self, owner: int, name: str, site: Site) -> None:
        if name == "bind":
            self.add(site.result, owner)
            return
        positional = site.positional[1:]
        if name == "apply":
            positional = tuple(-abs(place) for place in positional if place)
        inner = self.sites.new(site.result, positional, (), site.runner, site.line)
        self.call_place(self._held_by(owner), inner)

    def _held_by(self, value: int) -> int:
        place = self.place()
        self.add(place, value)
        return place

    def _then(self, owner: int, name: str, callback: int, site: Site) -> None:
        self.add(site.result, owner)
        if not callback:
            return
        given = self.place()
        if name == "then":
            self.on_await(owner, (given, site.runner, site.line))
        inner = self.site(site.runner, site.line, given)
        self.call_place(callback, inner)
        self.watch(inner.result, self.on_await, (site.result, site.runner, site.line))

    def _call_of_array(self, owner: int, container: ContainerValue, name: str, site: Site) -> None:  # noqa: C901, PLR0912
        first = site.positional[0] if site.positional and site.positional[0] > 0 else 0
        if name in {"push", "unshift"}:
            for place in site.positional:
                if place > 0:
                    self.copy(place, container.appended if name == "push" else container.any)
        elif name in _CALLING and first:
            arguments = (container.all, container.all) if name == "sort" else (container.all, 0)
            inner = self.site(site.runner, site.line, *arguments)
            self.call_place(first, inner)
            given = _CALLING[name]
            if given == "made":
                made, view = self.made_by(site, "list")
                self.copy(inner.result, view.any)
                self.add(site.result, made)
            elif given == "same":
                self.add(site.result, owner)
            elif given == "element":
                self.copy(container.all, site.result)
        elif name == "reduce" and first:
            total = self.place()
            self.copy(container.all, total)
            self.copy(site.result, total)
            for place in site.positional[1:2]:
                self.copy(abs(place), total)
                self.copy(abs(place), site.result)
            inner = self.site(site.runner, site.line, total, container.all, result=site.result)
            self.call_place(first, inner)
        elif name in {"pop", "shift", "at"}:
            self.copy(container.all, site.result)
        elif name in {"slice", "concat", "reverse", "values", "flat"}:
            self.add(site.result, owner)
            for place in site.positional:
                if place > 0 and name == "concat":
                    self.copy(place, site.result)


_CALLABLE = {ObjectKind.FUNCTION, ObjectKind.BOUND}
