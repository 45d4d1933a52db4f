"""The linker for JavaScript and TypeScript: import resolution, and the behavior of objects."""

from __future__ import annotations

import posixpath

from coatcheck.codegraph.javascript.expressions import CLASS_METHOD, PROPERTY
from coatcheck.codegraph.javascript.statements import WHOLE
from coatcheck.codegraph.points_to import kinds
from coatcheck.codegraph.points_to.archive import Module, SourceArchive
from coatcheck.codegraph.points_to.attributes import Load, Store
from coatcheck.codegraph.points_to.call_sites import CallSite
from coatcheck.codegraph.points_to.linker import Linker
from coatcheck.codegraph.points_to.program import Container, LinkedFunction
from coatcheck.codegraph.summary import Key, PackedSummary

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
# Methods of arrays that call their first argument with an element, and their results.
_CALLING = {
    "map": "made", "flatMap": "made", "forEach": None, "filter": "same", "find": "element",
    "findLast": "element", "some": None, "every": None, "findIndex": None, "sort": "same",
}  # fmt: skip


class JavaScriptArchive(SourceArchive):
    """Resolves imports by path."""

    def __init__(self, summaries: dict[str, PackedSummary]) -> None:
        self.modules = []
        self._by_path: dict[str, Module] = {}
        for path in sorted(summaries):
            stem = path.rpartition(".")[0]
            name = stem.removesuffix("/index").replace("/", ".")
            module = Module(len(self.modules), path, name, summaries[path], is_package=False)
            self.modules.append(module)
            self._by_path[path] = module

    def submodule(self, package: Module, name: str) -> Module | None:
        """Return None: a module of JavaScript has no submodules."""
        del package, name
        return None

    def absolute(self, importer: Module, name: str) -> Module | None:
        """Return the file that a specifier names, or None for a package."""
        if not name.startswith("."):
            return None
        path = posixpath.normpath(posixpath.join(importer.folder, name))
        stem, _, ending = path.rpartition(".")
        candidates = [path, *(path + ending for ending in _ENDINGS)]
        if ending in {"js", "mjs", "cjs", "jsx"}:
            # TypeScript names the compiled file.
            candidates.extend(stem + other for other in _ENDINGS)
        candidates.extend(f"{path}/index{other}" for other in _ENDINGS)
        return next((self._by_path[one] for one in candidates if one in self._by_path), None)


class JavaScriptLinker(Linker):
    """Links JavaScript and TypeScript."""

    implicit_constructors = True

    def _link_unknown(self, module: Module, var: int, name: str) -> None:
        del module
        if name == CLASS_METHOD:
            self.add(var, self.make(kinds.BUILTIN, "classmethod"))
        elif name == PROPERTY:
            self.add(var, self.make(kinds.BUILTIN, "property"))
        elif name in _GLOBALS:
            self.add(var, self.make(kinds.BUILTIN, name))

    def _link_import(
        self, module: Module, var: int, dots: int, name: str, attribute: str | None, line: int
    ) -> None:
        found = self._find(module, dots, name)
        if found is None and name.startswith("."):
            return  # in the project, but not in the archive
        if found is None and attribute == "default" and var:
            self._note_import(module, name, line)
            self.add(var, self.external(name))
            return
        super()._link_import(module, var, dots, name, attribute, line)
        whole = found.exports.get(WHOLE) if var and found is not None else None
        if found is not None and whole is not None:
            has_name = attribute is not None and found.exports.get(attribute) is not None
            if attribute is None or (attribute == "default" and not has_name):
                self.copy(whole, var)
            elif not has_name:
                self.subscribe(whole, self.on_load, (var, attribute, 0, line))

    # --- objects

    def on_load(self, value: int, load: Load) -> None:
        """Load an attribute of a value."""
        result, attribute, _, _ = load
        kind = self.kind[value]
        container = self.container_of(value)
        if container is not None and container.kind == "object":
            self.get(container, attribute, result)
        elif (kind in _CALLABLE and attribute in {"call", "apply", "bind"}) or (
            kind == kinds.COROUTINE and attribute in {"then", "catch", "finally"}
        ):
            self.add(result, self.make(kinds.METHOD_OF, value, attribute))
        else:
            super().on_load(value, load)

    def on_store(self, value: int, store: Store) -> None:
        """Store a variable in an attribute of a value."""
        container = self.container_of(value)
        if container is not None and container.kind == "object":
            self.put(container, store[0], store[1])
        else:
            super().on_store(value, store)

    def on_item(self, value: int, data: tuple[int, Key, int, int, int]) -> None:
        """Load `value[key]`."""
        result, key, _, caller, line = data
        if isinstance(key, str) and self.kind[value] in {
            kinds.INSTANCE,
            kinds.MODULE,
        }:
            self.on_load(value, (result, key, caller, line))
        else:
            super().on_item(value, data)

    def iterate(self, value: int, result: int, caller: int, line: int) -> None:
        """Send the elements of an iterable value to a variable."""
        container = self.container_of(value)
        if container is None or container.kind != "object":
            super().iterate(value, result, caller, line)

    # --- calls

    def call_function(self, function: LinkedFunction, receiver: int | None, site: CallSite) -> None:
        """Call a function; a method called without receiver has no `this`."""
        if receiver is None and function.owner >= 0:
            positional = (0, *site.positional)
            site = CallSite(
                site.result, positional, site.keywords, site.caller, site.line, site.callee
            )
        super().call_function(function, receiver, site)

    def call_outside(self, value: int, site: CallSite) -> None:
        """Call a global or an imported object."""
        kind = self.kind[value]
        name = self.first[value]
        if kind == kinds.METHOD_OF:
            self.call_method_of(value, site)
        elif kind == kinds.EXTERNAL:
            self.edge(site, name.removesuffix(".__init__"))
        elif kind == kinds.BUILTIN and site.is_declaration:
            super().call_outside(value, site)
        elif kind == kinds.BUILTIN:
            self.edge(site, f"<builtin>.{name}")
            self._call_global(name, site)

    def _call_global(self, name: str, site: CallSite) -> None:
        first = site.positional[0] if site.positional else 0
        if name == "Promise" and first > 0:
            self.call_var(first, self.site(site.caller, site.line, 0, 0))
        elif name == "Promise.all" and first > 0:
            value, container = self.container_at(site, "list")
            element = self._elements(first, site)
            self.subscribe(element, self.on_await, (container.any, site.caller, site.line))
            self.add(site.result, value)
        elif name in {"Promise.resolve", "Object.freeze", "Object.assign"} and first > 0:
            self.copy(first, site.result)
        elif name in {"Object.values", "Array.from", "Set", "Array.of"} and first > 0:
            value, container = self.container_at(site, "list")
            self.subscribe(first, self._on_values, container)
            self.add(site.result, value)
        elif name == "Map":
            value, _ = self.container_at(site, "dict")
            self.add(site.result, value)

    def _on_values(self, value: int, container: Container) -> None:
        other = self.container_of(value)
        if other is not None:
            self.copy(other.all, container.any)

    def on_await(self, value: int, data: tuple[int, int, int]) -> None:
        """Send the result of `await value` to a variable; a value that is no promise is its own
        result.
        """
        if self.kind[value] in {kinds.COROUTINE, kinds.GENERATOR}:
            super().on_await(value, data)
        else:
            self.add(data[0], value)

    def call_method_of(self, value: int, site: CallSite) -> None:  # noqa: C901
        """Call a method of an array, a map, a promise, a function or a text."""
        owner, name = self.first[value], self.second[value]
        kind = self.kind[owner]
        container = self.container_of(owner)
        first = site.positional[0] if site.positional and site.positional[0] > 0 else 0
        if kind in _CALLABLE:
            self._call_function_method(owner, name, site)
        elif kind == kinds.COROUTINE:
            self._then(owner, name, first, site)
        elif kind == kinds.PROPERTY:
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
                made, view = self.container_at(site, "list")
                self.copy(container.all, view.any)
                self.add(site.result, made)
        elif kind == kinds.CONSTANT or kind == kinds.TYPED:
            is_text = self._type_name(owner) == "str"
            self.edge(site, f"<builtin>.{'String' if is_text else 'Number'}.{name}")
            if is_text and name not in {"split", "indexOf", "charCodeAt", "match", "length"}:
                self.add(site.result, self.make(kinds.TYPED, "str"))
            elif name == "split":
                made, view = self.container_at(site, "list")
                self.add(view.any, self.make(kinds.TYPED, "str"))
                self.add(site.result, made)

    def _call_function_method(self, owner: int, name: str, site: CallSite) -> None:
        if name == "bind":
            self.add(site.result, owner)
            return
        positional = site.positional[1:]
        if name == "apply":
            positional = tuple(-abs(var) for var in positional if var)
        inner = CallSite(site.result, positional, (), site.caller, site.line)
        self.call_var(self._held_by(owner), inner)

    def _held_by(self, value: int) -> int:
        var = self.new_var()
        self.add(var, value)
        return var

    def _then(self, owner: int, name: str, callback: int, site: CallSite) -> None:
        self.add(site.result, owner)
        if not callback:
            return
        given = self.new_var()
        if name == "then":
            self.on_await(owner, (given, site.caller, site.line))
        inner = self.site(site.caller, site.line, given)
        self.call_var(callback, inner)
        self.subscribe(inner.result, self.on_await, (site.result, site.caller, site.line))

    def _call_of_array(self, owner: int, container: Container, name: str, site: CallSite) -> None:  # noqa: C901, PLR0912
        first = site.positional[0] if site.positional and site.positional[0] > 0 else 0
        if name in {"push", "unshift"}:
            for var in site.positional:
                if var > 0:
                    self.copy(var, container.appended if name == "push" else container.any)
        elif name in _CALLING and first:
            arguments = (container.all, container.all) if name == "sort" else (container.all, 0)
            inner = self.site(site.caller, site.line, *arguments)
            self.call_var(first, inner)
            given = _CALLING[name]
            if given == "made":
                made, view = self.container_at(site, "list")
                self.copy(inner.result, view.any)
                self.add(site.result, made)
            elif given == "same":
                self.add(site.result, owner)
            elif given == "element":
                self.copy(container.all, site.result)
        elif name == "reduce" and first:
            total = self.new_var()
            self.copy(container.all, total)
            self.copy(site.result, total)
            for var in site.positional[1:2]:
                self.copy(abs(var), total)
                self.copy(abs(var), site.result)
            inner = self.site(site.caller, site.line, total, container.all, result=site.result)
            self.call_var(first, inner)
        elif name in {"pop", "shift", "at"}:
            self.copy(container.all, site.result)
        elif name in {"slice", "concat", "reverse", "values", "flat"}:
            self.add(site.result, owner)
            for var in site.positional:
                if var > 0 and name == "concat":
                    self.copy(var, site.result)


_CALLABLE = {kinds.FUNCTION, kinds.BOUND}
