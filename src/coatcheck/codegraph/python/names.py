"""The part of reading a file that knows places and names."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from functools import wraps
from sys import intern
from typing import Concatenate, ParamSpec, TypeVar

from tree_sitter import Node

from coatcheck.codegraph.python.scopes import NameScope
from coatcheck.codegraph.summary import DefinitionSummary, ModuleSummary, Var

# Deeper than people nest; a level takes up to five calls of the reader, of the thousand that Python
# allows. Long chains and sums are read in a loop
# and do not count.
MAX_DEPTH = 120
_SHARED = re.compile(rb"\b(?:global|nonlocal)[ \t]+([A-Za-z_][\w, \t]*)")
MAX_CONSTANT_LENGTH = 200
MAX_SIGNATURE = 500

_Reader = TypeVar("_Reader", bound="Names")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def not_too_deep(
    otherwise: _Result,
) -> Callable[
    [Callable[Concatenate[_Reader, Node, _Arguments], _Result]],
    Callable[Concatenate[_Reader, Node, _Arguments], _Result],
]:
    """Let a method that reads a node, and may come to itself again, give up where it is deep."""

    def decorate(
        method: Callable[Concatenate[_Reader, Node, _Arguments], _Result],
    ) -> Callable[Concatenate[_Reader, Node, _Arguments], _Result]:
        @wraps(method)
        def guarded(
            self: _Reader, node: Node, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
        ) -> _Result:
            if self.depth > MAX_DEPTH:
                self.too_deep_line = self.too_deep_line or node.start_point.row + 1
                return otherwise
            self.depth += 1
            try:
                return method(self, node, *args, **kwargs)
            finally:
                self.depth -= 1

        return guarded

    return decorate


class Names:
    """Places are made here, and names looked up as Python would.

    Where nobody asks who calls whom, `with_calls` is False, and what is only run, as the body of a
    function, is not read unless it has something that is `telling`: without that it defines
    nothing, imports nothing and binds no name of anybody else's.
    """

    telling: re.Pattern[bytes]
    with_calls = True

    def __init__(self, source: bytes) -> None:
        self.source = source
        # Where a byte is a character, a slice of text is enough.
        self._plain = source.decode() if source.isascii() else None
        self.summary = ModuleSummary()
        # Names that another scope assigns to: what they stand for is not known from one scope's
        # order of running.
        self.shared = (
            {
                name.strip().decode()
                for names in _SHARED.findall(source)
                for name in names.split(b",")
            }
            if b"global" in source or b"nonlocal" in source
            else set()
        )
        self.module = NameScope("module", None, 0, 0)
        self.scope = self.module
        self.scopes = [self.module]
        self.waiting: deque[tuple[Node, NameScope]] = deque()
        self.depth = 0
        self.too_deep_line = 0
        self._constants: dict[int | str, Var] = {}
        self._typed: dict[str, Var] = {}

    def has_effect(self, node: Node) -> bool:
        """Tell whether the body of a function, or what else is only run, has to be read."""
        return (
            self.with_calls
            or self.telling.search(self.source, node.start_byte, node.end_byte) is not None
        )

    def text(self, node: Node) -> str:
        """Return a node's text."""
        if self._plain is not None:
            return intern(self._plain[node.start_byte : node.end_byte])
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def new_var(self) -> Var:
        """Make a place."""
        self.summary.variables += 1
        return self.summary.variables

    def copy(self, source: Var, target: Var) -> None:
        """Say that what is in one place is in another."""
        if source and target and source != target:
            self.summary.copies.append((source, target))

    def join(self, var_list: list[Var]) -> Var:
        """Return a place that holds what any of these hold."""
        several = dict.fromkeys(var for var in var_list if var)
        if len(several) < 2:
            return next(iter(several), 0)
        joined = self.new_var()
        for var in several:
            self.summary.copies.append((var, joined))
        return joined

    def constant(self, value: int | str) -> Var:
        """Return the place of something that is written out."""
        var = self._constants.get(value)
        if var is None:
            var = self._constants[value] = self.new_var()
            self.summary.constants.append((var, value))
        return var

    def typed(self, name: str) -> Var:
        """Return the place of a value of a builtin type that is not written out."""
        var = self._typed.get(name)
        if var is None:
            var = self._typed[name] = self.new_var()
            self.summary.typed.append((var, name))
        return var

    # --- names

    def read_name(self, name: str) -> Var:
        """Return what a name stands for here."""
        scope = self.scope
        if name not in self.shared:
            var = scope.current(name, self.new_var, self.copy)
            if var is not None:
                return var
        elif name in scope.declared:
            return self.outside(scope.declared[name], name)
        elif name in scope.assigned and scope.kind != "class":
            return self.outside(scope, name)
        if scope.kind == "module":
            return self.outside(scope, name)
        var = scope.pending.get(name)
        if var is None:
            var = scope.pending[name] = self.new_var()
        return var

    def outside(self, scope: NameScope, name: str) -> Var:
        """Return a scope's variable as others see it: everything that is ever assigned to it."""
        var = scope.seen_outside.get(name)
        if var is None:
            var = scope.seen_outside[name] = self.new_var()
        return var

    def resolve_pending(self, scope: NameScope) -> None:
        """Look up the names that a scope read without having assigned them by then."""
        for name, var in scope.pending.items():
            captured = self._captured(scope, name)
            if captured is not None:
                self.copy(captured, var)
                continue
            self.copy(self.outside(self._owner_of(scope, name), name), var)

    @staticmethod
    def _captured(scope: NameScope | None, name: str) -> Var | None:
        while scope is not None and name not in scope.assigned:
            if name in scope.captured:
                return scope.captured[name]
            scope = scope.parent
        return None

    def _owner_of(self, scope: NameScope, name: str) -> NameScope:
        if name in scope.declared:
            return scope.declared[name]
        if name in scope.assigned and scope.kind != "class":
            return scope
        around = scope.parent
        while around is not None and around.kind != "module":
            if around.kind == "function" and name in around.assigned:
                return around
            if name in around.declared:
                return around.declared[name]
            around = around.parent
        return self.module

    def finish(self) -> None:
        """Say what each scope's variables hold for others; what nobody assigned is left unknown."""
        for scope in self.scopes:
            for name, var in scope.seen_outside.items():
                if scope is self.module and name not in scope.assigned:
                    self.summary.unknown_names.append((var, name))
                for assigned in dict.fromkeys(scope.assigned.get(name, ())):
                    self.copy(assigned, var)

    # --- definitions

    def define(self, kind: str, name: str, node: Node, signature: str | None) -> int:
        """Add a definition that stands in the scope that is read."""
        parent = self.scope.definition
        around = self.summary.definitions[parent].qualified_name
        self.summary.definitions.append(
            DefinitionSummary(
                kind,
                name,
                f"{around}.{name}" if around else name,
                node.start_point.row + 1,
                node.end_point.row + 1,
                signature,
                parent,
            )
        )
        return len(self.summary.definitions) - 1
