"""Nodes and edges of the files of one language."""

from __future__ import annotations

import posixpath
from array import array
from typing import TypeVar

from coatcheck.codegraph.graph import EdgeKind, GraphBuilder, NodeKind, Want
from coatcheck.codegraph.tagged.summary import Reference, TaggedSummary

_CONSTRUCTORS = {"ruby": ("initialize",), "php": ("__construct",)}


class _File:
    """A file and its names."""

    def __init__(self, path: str, node: int, summary: TaggedSummary) -> None:
        self.path = path
        self.node = node
        self.summary = summary
        self.module = path.rpartition(".")[0].replace("/", ".")
        self.prefix = summary.namespace or self.module
        self.nodes = array("i")  # by definition
        self.by_path: dict[str, list[int]] = {}
        for index, definition in enumerate(summary.definitions):
            self.by_path.setdefault(definition.qualified_name, []).append(index)
        self.bases: dict[int, list[str]] = {}  # by class
        for index, name, _ in summary.bases:
            self.bases.setdefault(index, []).append(name)


_Found = tuple[_File, int]


class _Candidates:
    """The definitions that a name may refer to."""

    __slots__ = ("count", "first", "here")

    def __init__(self, first: _Found) -> None:
        self.first = first
        self.count = 0
        self.here: dict[_File, int] = {}  # the first of each file

    def nearest(self, file: _File) -> _Found | None:
        """Return the definition in the same file, or the only one."""
        index = self.here.get(file)
        if index is not None:
            return file, index
        return self.first if self.count == 1 else None


_Key = TypeVar("_Key")


def _add(candidates: dict[_Key, _Candidates], key: _Key, file: _File, index: int) -> None:
    known = candidates.get(key)
    if known is None:
        known = candidates[key] = _Candidates((file, index))
    known.count += 1
    known.here.setdefault(file, index)


class TaggedGraphWriter:
    """Resolves the references of a language's files."""

    def __init__(
        self, language: str, summaries: dict[str, TaggedSummary], nodes: dict[str, int]
    ) -> None:
        self.language = language
        self.files = [_File(path, nodes[path], summaries[path]) for path in sorted(summaries)]
        # Visible functions and classes by their last name.
        self._functions: dict[str, _Candidates] = {}
        self._classes: dict[str, _Candidates] = {}
        self._members: dict[tuple[str, str], _Candidates] = {}
        # Files by path; the first file of each namespace and of each class in one.
        self._by_path = {file.path: file for file in self.files}
        self._by_namespace: dict[str, _File] = {}
        self._by_class: dict[str, _File] = {}
        # Rust files by module.
        self._by_module = {
            file.module.removesuffix(".mod").removesuffix(".lib").removesuffix(".main"): file
            for file in self.files
        }
        for file in self.files:
            self._by_namespace.setdefault(file.summary.namespace, file)
            for index, definition in enumerate(file.summary.definitions):
                if definition.kind == "class":
                    _add(self._classes, definition.name, file, index)
                    if file.summary.namespace:
                        path = f"{file.prefix}.{definition.qualified_name}"
                        self._by_class.setdefault(path, file)
                elif definition.kind == "function" and index not in file.summary.local:
                    _add(self._functions, definition.name, file, index)
                elif definition.kind == "method":
                    owner = definition.qualified_name.rpartition(".")[0].rpartition(".")[2]
                    _add(self._members, (owner, definition.name), file, index)

    def write(self, want: frozenset[Want], builder: GraphBuilder) -> None:
        """Add the wanted parts to the graph."""
        with_definitions = bool(want & {Want.CALL, Want.PARSE})
        for file in self.files:
            self._add(file, with_definitions, builder)
        for file in self.files:
            if Want.PARSE in want:
                self._write_definitions(file, builder)
            if Want.DEPENDENCY in want:
                self._write_imports(file, builder)
            if Want.CALL in want:
                for reference in file.summary.references:
                    target = self._resolve(file, reference)
                    if isinstance(target, str):
                        node = builder.external(target, self.language)
                    elif target is not None:
                        node = target[0].nodes[target[1]]
                    else:
                        continue
                    source = file.nodes[reference.caller]
                    builder.connect(source, node, EdgeKind.CALLS, reference.line)

    def _add(self, file: _File, with_definitions: bool, builder: GraphBuilder) -> None:
        for index, definition in enumerate(file.summary.definitions):
            if index and not with_definitions:
                break
            inner = definition.qualified_name
            file.nodes.append(
                builder.add(
                    NodeKind(definition.kind),
                    f"{file.prefix}.{inner}" if index else file.module,
                    name=definition.name or file.module.rpartition(".")[2],
                    file=file.path,
                    language=self.language,
                    line=definition.line,
                    end_line=definition.end_line,
                    signature=definition.signature,
                )
            )

    def _write_definitions(self, file: _File, builder: GraphBuilder) -> None:
        builder.connect(file.node, file.nodes[0], EdgeKind.DEFINES, 1)
        for index, definition in enumerate(file.summary.definitions):
            if index:
                parent = file.nodes[definition.parent]
                builder.connect(parent, file.nodes[index], EdgeKind.DEFINES, definition.line)
        for index, name, line in file.summary.bases:
            base = self._class(file, name)
            if base is not None:
                target = base[0].nodes[base[1]]
                builder.connect(file.nodes[index], target, EdgeKind.INHERITS, line)

    def _write_imports(self, file: _File, builder: GraphBuilder) -> None:
        known = self._by_path
        folder = file.path.rpartition("/")[0]
        for path, line in file.summary.includes:
            endings = ("", ".rb") if self.language == "ruby" else ("",)
            tried = [
                posixpath.normpath(posixpath.join(base, path + ending))
                for base in (folder, "", "include", "src", "lib")
                for ending in endings
            ]
            found = next((known[one] for one in tried if one in known), None)
            target = found.nodes[0] if found is not None else builder.external(path, self.language)
            builder.connect(file.nodes[0], target, EdgeKind.IMPORTS, line)
        for path, _, line in file.summary.imports:
            other = self._imported_file(file, path)
            if other is file:
                continue
            target = other.nodes[0] if other is not None else builder.external(path, self.language)
            builder.connect(file.nodes[0], target, EdgeKind.IMPORTS, line)

    def _imported_file(self, file: _File, path: str) -> _File | None:
        if self.language == "rust":
            return self._rust_file(file, path)
        other = self._by_class.get(path)
        if other is None:
            other = self._by_namespace.get(path)
            return None if other is file else other
        return other

    def _rust_file(self, file: _File, path: str) -> _File | None:
        """Resolve a module path, from `crate`, `self` or `super`, or beside the file."""
        here = file.module.removesuffix(".mod")
        parts = path.split(".")
        around = here.rpartition(".")[0]
        if parts[0] == "crate":
            root = here.partition(".src.")[0] + ".src" if ".src." in here else here.split(".")[0]
            parts = [*root.split("."), *parts[1:]]
        elif parts[0] == "super":
            parts = [*around.split("."), *parts[1:]]
        elif parts[0] == "self":
            parts = [*here.split("."), *parts[1:]]
        else:
            parts = [*(around.split(".") if around else []), *parts]
        while parts:
            found = self._by_module.get(".".join(part for part in parts if part))
            if found is not None and found is not file:
                return found
            parts = parts[:-1]
            if len(parts) <= max(1, around.count(".") + 1):
                break
        return None

    # --- calls

    def _resolve(self, file: _File, reference: Reference) -> _Found | str | None:
        if reference.form == "name":
            return self._function(file, reference)
        if reference.form == "new":
            return self._new(file, reference.owner)
        if reference.form == "type":
            return self._static(file, reference)
        return self._own_method(file, reference)

    def _own_method(self, file: _File, reference: Reference) -> _Found | None:
        """Find a method of the enclosing class, or of its bases."""
        caller = file.summary.definitions[reference.caller].qualified_name
        owner = caller.rpartition(".")[0].rpartition(".")[2]
        names = [owner]
        if reference.form == "super":
            names = self._base_names(file, owner)
        found = self._member_along(file, names, reference.name)
        if found is None and reference.form == "self" and self.language == "ruby":
            function = self._function(file, reference)
            return function if not isinstance(function, str) else None
        return found

    def _base_names(self, file: _File, owner: str) -> list[str]:
        found = self._class(file, owner)
        if found is None:
            return []
        other, index = found
        return [name.rpartition(".")[2] for name in other.bases.get(index, ())]

    def _member_along(self, file: _File, names: list[str], member: str) -> _Found | None:
        seen: set[str] = set()
        waiting = list(names)
        while waiting:
            owner = waiting.pop(0)
            if owner in seen or not owner:
                continue
            seen.add(owner)
            found = self._member(file, owner, member)
            if found is not None:
                return found
            waiting.extend(self._base_names(file, owner))
        return None

    def _member(self, file: _File, owner: str, name: str) -> _Found | None:
        candidates = self._members.get((owner, name))
        return None if candidates is None else candidates.nearest(file)

    def _class(self, file: _File, name: str) -> _Found | None:
        candidates = self._classes.get(name.rpartition(".")[2])
        return None if candidates is None else candidates.nearest(file)

    def _visible_function(self, file: _File, name: str) -> _Found | None:
        """Return the visible function of a name."""
        candidates = self._functions.get(name)
        return None if candidates is None else candidates.nearest(file)

    def _function(self, file: _File, reference: Reference) -> _Found | str | None:
        caller = file.summary.definitions[reference.caller]
        around = caller.qualified_name
        while True:
            for index in file.by_path.get(
                f"{around}.{reference.name}" if around else reference.name, ()
            ):
                kind = file.summary.definitions[index].kind
                if kind == "function" or (kind == "method" and self.language in _IMPLICIT_SELF):
                    return file, index
            if not around:
                break
            around = around.rpartition(".")[0]
        if caller.kind == "method" and self.language in _IMPLICIT_SELF:
            owner = caller.qualified_name.rpartition(".")[0].rpartition(".")[2]
            found = self._member_along(file, [owner], reference.name)
            if found is not None:
                return found
        imported = next(
            (path for path, alias, _ in file.summary.imports if alias == reference.name), ""
        )
        if imported:
            target = self._visible_function(file, reference.name)
            return target if target is not None else imported.removeprefix("crate.")
        if self.language in _ONE_NAMESPACE:
            return self._visible_function(file, reference.name)
        return None

    def _new(self, file: _File, owner: str) -> _Found | None:
        found = self._class(file, owner)
        if found is None:
            return None
        name = found[0].summary.definitions[found[1]].name
        for constructor in (*_CONSTRUCTORS.get(self.language, ()), name):
            member = self._member(found[0], name, constructor)
            if member is not None:
                return member
        return found

    def _static(self, file: _File, reference: Reference) -> _Found | str | None:
        owner = reference.owner.rpartition(".")[2]
        if owner == "Self":
            return self._own_method(file, reference._replace(form="self"))
        found = self._member_along(file, [owner], reference.name)
        if found is not None:
            return found
        first, _, rest = reference.owner.partition(".")
        imported = next((path for path, alias, _ in file.summary.imports if alias == first), "")
        if imported and self._class(file, owner) is None:
            other = self._imported_file(file, imported)
            if other is not None:
                for index in other.by_path.get(reference.name, ()):
                    return other, index
                return None
            return ".".join(part for part in (imported, rest, reference.name) if part)
        if self.language == "rust":
            other = self._rust_file(file, reference.owner)
            for index in other.by_path.get(reference.name, ()) if other is not None else ():
                return other, index  # type: ignore[return-value]
        if self.language == "cpp" and first == "std":
            return f"{reference.owner}.{reference.name}"
        for index in file.by_path.get(f"{reference.owner}.{reference.name}", ()):
            return file, index
        return None


# Languages in which a bare name may be a method of the same class.
_IMPLICIT_SELF = {"cpp", "csharp", "ruby"}
# Languages in which a bare name may be a visible function of any file.
_ONE_NAMESPACE = {"c", "cpp", "php", "ruby"}
