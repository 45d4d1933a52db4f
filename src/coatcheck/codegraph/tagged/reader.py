"""Reads a file in one walk over the tree, with an explicit stack."""

from __future__ import annotations

import re
from typing import NamedTuple

from tree_sitter import Node

from coatcheck.codegraph.python.names import MAX_SIGNATURE
from coatcheck.codegraph.summary import DefinitionSummary
from coatcheck.codegraph.tagged.grammar import GRAMMARS, Grammar, called, dotted
from coatcheck.codegraph.tagged.summary import Reference, TaggedSummary

_SPACE = re.compile(r"\s+")
_DEFAULT = re.compile(r"\s*=\s*[^,)]*")
_RUBY_IMPORTS = {"require", "require_relative", "load"}


class _Surroundings(NamedTuple):
    """The surroundings of a node."""

    definition: int
    caller: int
    path: str
    in_class: bool


class TaggedReader:
    """Reads one file of a language."""

    def __init__(self, source: bytes, language: str) -> None:
        self.source = source
        self.language = language
        self.grammar: Grammar = GRAMMARS[language]
        self.summary = TaggedSummary()
        self.too_deep_line = 0

    def text(self, node: Node) -> str:
        """Return a node's text."""
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def file(self, root: Node) -> TaggedSummary:
        """Read a whole file."""
        end = root.end_point.row + 1
        self.summary.definitions.append(DefinitionSummary("module", "", "", 1, end, None, -1))
        waiting: list[tuple[Node, _Surroundings]] = [
            (root, _Surroundings(0, 0, "", in_class=False))
        ]
        while waiting:
            node, around = waiting.pop()
            inside = self._visit(node, around)
            if inside is not None:
                waiting.extend((child, inside) for child in reversed(node.named_children))
        return self.summary

    def _visit(self, node: Node, around: _Surroundings) -> _Surroundings | None:
        kind, grammar = node.type, self.grammar
        if kind in grammar.functions:
            return self._function(node, around)
        if kind in grammar.classes:
            return self._class(node, around)
        if kind in grammar.namespaces:
            return self._namespace(node, around)
        if kind in grammar.imports:
            self._import(node)
            return None
        if kind in grammar.bases:
            self._bases(node, around)
            return None
        if kind in grammar.calls:
            self._call(node, around)
        return around

    # --- definitions

    def _define(self, kind: str, name: str, node: Node, around: _Surroundings, shown: str) -> int:
        path = f"{around.path}.{name}" if around.path else name
        self.summary.definitions.append(
            DefinitionSummary(
                kind,
                name.rpartition(".")[2],
                path,
                node.start_point.row + 1,
                node.end_point.row + 1,
                _SPACE.sub(" ", shown)[:MAX_SIGNATURE],
                around.definition,
            )
        )
        return len(self.summary.definitions) - 1

    def _function(self, node: Node, around: _Surroundings) -> _Surroundings | None:
        name, parameters = self._named(node)
        if not name:
            return around
        kind = "method" if around.in_class or "." in name else "function"
        # Default values are not part of the signature.
        shown = _DEFAULT.sub("", self.text(parameters)) if parameters is not None else "()"
        definition = self._define(kind, name, node, around, f"{name}{shown}")
        words = {self.text(child) for child in node.children if not child.named_child_count}
        if "static" in words and self.language == "c":
            self.summary.local.add(definition)
        path = self.summary.definitions[definition].qualified_name
        return _Surroundings(definition, definition, path, in_class=False)

    def _named(self, node: Node) -> tuple[str, Node | None]:
        """Return a function's name, qualified if written so, and its parameters."""
        if self.language not in {"c", "cpp"}:
            name = node.child_by_field_name("name")
            return self.text(name) if name is not None else "", node.child_by_field_name(
                "parameters"
            )
        declarator = node.child_by_field_name("declarator")
        while declarator is not None and declarator.type != "function_declarator":
            declarator = declarator.child_by_field_name("declarator")
        if declarator is None:
            return "", None
        name = declarator.child_by_field_name("declarator")
        text = dotted(self.text(name)) if name is not None else ""
        return text, declarator.child_by_field_name("parameters")

    def _class(self, node: Node, around: _Surroundings) -> _Surroundings | None:
        name = node.child_by_field_name("name") or node.child_by_field_name("type")
        body = node.child_by_field_name("body")
        if name is None or (body is None and self.language in {"c", "cpp"}):
            return around
        shown = dotted(self.text(name))
        if node.type == "impl_item":
            # An impl adds to a type and is no class of its own.
            path = f"{around.path}.{shown}" if around.path else shown
            return _Surroundings(around.definition, around.caller, path, in_class=True)
        definition = self._define("class", shown, node, around, shown)
        path = self.summary.definitions[definition].qualified_name
        return _Surroundings(definition, around.caller, path, in_class=True)

    def _namespace(self, node: Node, around: _Surroundings) -> _Surroundings | None:
        name = node.child_by_field_name("name")
        if name is None:
            return around
        shown = dotted(self.text(name))
        body = node.child_by_field_name("body")
        if self.grammar.is_named_by_namespace and not around.path:
            self.summary.namespace = shown
            return around
        if body is None:
            self.summary.imports.append((shown, "", node.start_point.row + 1))
            return None
        path = f"{around.path}.{shown}" if around.path else shown
        return around._replace(path=path)

    def _bases(self, node: Node, around: _Surroundings) -> None:
        line = node.start_point.row + 1
        for child in node.named_children:
            if child.type in {"access_specifier", "argument_list"}:
                continue
            self.summary.bases.append((around.definition, dotted(self.text(child)), line))

    # --- import declarations

    def _import(self, node: Node) -> None:
        line = node.start_point.row + 1
        if node.type == "preproc_include":
            path = node.child_by_field_name("path")
            if path is not None:
                self.summary.includes.append((self.text(path).strip('"<>'), line))
        elif self.language == "rust":
            argument = node.child_by_field_name("argument")
            if argument is not None:
                self._rust_use(argument, line)
        else:
            for child in node.named_children:
                written, _, alias = self.text(child).partition(" as ")
                full = dotted(written)
                if full:
                    shown = alias.strip() or full.rpartition(".")[2]
                    self.summary.imports.append((full, shown, line))

    def _rust_use(self, node: Node, line: int) -> None:
        waiting: list[tuple[Node, str]] = [(node, "")]
        while waiting:
            one, prefix = waiting.pop()
            path = one.child_by_field_name("path")
            if one.type == "scoped_use_list":
                listed = one.child_by_field_name("list")
                inner = dotted(self.text(path)) if path is not None else ""
                joined = ".".join(part for part in (prefix, inner) if part)
                if listed is not None:
                    waiting.extend((child, joined) for child in listed.named_children)
            elif one.type == "use_list":
                waiting.extend((child, prefix) for child in one.named_children)
            else:
                alias = one.child_by_field_name("alias")
                target = path if one.type == "use_as_clause" and path is not None else one
                full = ".".join(part for part in (prefix, dotted(self.text(target))) if part)
                full = full.removesuffix(".self")
                shown = self.text(alias) if alias is not None else full.rpartition(".")[2]
                self.summary.imports.append((full, shown, line))

    # --- calls

    def _call(self, node: Node, around: _Surroundings) -> None:
        line = node.start_point.row + 1
        arguments = node.child_by_field_name("arguments")
        if self.language == "ruby":
            self._ruby_call(node, around, line)
            return
        function = node.child_by_field_name("function")
        if arguments is None:
            arguments = next(
                (child for child in node.named_children if child.type.startswith("argument")), None
            )
        end = arguments.start_byte if arguments is not None else node.end_byte
        before = self.source[node.start_byte : end].decode("utf-8", "replace").strip()
        if len(before) > 200:
            return
        found = called(node, before, self.text(function) if function is not None else None)
        if found is not None:
            self.summary.references.append(Reference(around.caller, *found, line))

    def _ruby_call(self, node: Node, around: _Surroundings, line: int) -> None:
        method, receiver = node.child_by_field_name("method"), node.child_by_field_name("receiver")
        if method is None:
            return
        name = self.text(method)
        arguments = node.child_by_field_name("arguments")
        if receiver is None and name in _RUBY_IMPORTS and arguments is not None:
            path = self.text(arguments).strip("()\"' ")
            self.summary.includes.append((path, line))
            return
        if receiver is None:
            form = "self" if around.in_class or self._in_method(around) else "name"
            self.summary.references.append(Reference(around.caller, form, "", name, line))
        elif receiver.type == "self":
            self.summary.references.append(Reference(around.caller, "self", "", name, line))
        elif receiver.type in {"constant", "scope_resolution"}:
            owner = dotted(self.text(receiver))
            form, shown = ("new", owner) if name == "new" else ("type", name)
            self.summary.references.append(Reference(around.caller, form, owner, shown, line))

    def _in_method(self, around: _Surroundings) -> bool:
        return self.summary.definitions[around.caller].kind == "method"
