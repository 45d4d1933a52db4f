"""Variables and names of a file that is read."""

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

# Deeper than people nest. A level takes up to five calls of the reader, of the thousand that Python
# allows. Loops read long chains and sums, which do not count.
MAX_DEPTH = 120
_SHARED = re.compile(rb"\b(?:global|nonlocal)[ \t]+([A-Za-z_][\w, \t]*)")
MAX_CONSTANT_LENGTH = 200
MAX_SIGNATURE = 500

_Reader = TypeVar("_Reader", bound="Names")
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def depth_limited(
    otherwise: _Result,
) -> Callable[
    [Callable[Concatenate[_Reader, Node, _Arguments], _Result]],
    Callable[Concatenate[_Reader, Node, _Arguments], _Result],
]:
    """Limit the depth of a method that reads nodes recursively."""

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
    """Creates variables and resolves names as Python does.

    If `with_calls` is False, code that is only run, such as the body of a function, is not read
    unless it is `relevant`: otherwise it defines nothing, imports nothing and binds no name of
    another scope.
    """

    relevant: re.Pattern[bytes]
    with_calls = True

    def __init__(self, source: bytes) -> None:
        self.source = source
        # In ASCII text, byte offsets are character offsets.
        self._plain = source.decode() if source.isascii() else None
        self.summary = ModuleSummary()
        # Names that another scope assigns: the order within one scope does not decide their value.
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
        """Tell whether code that is only run must be read."""
        return (
            self.with_calls
            or self.relevant.search(self.source, node.start_byte, node.end_byte) is not None
        )

    def text(self, node: Node) -> str:
        """Return a node's text."""
        if self._plain is not None:
            return intern(self._plain[node.start_byte : node.end_byte])
        return self.source[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def new_var(self) -> Var:
        """Create a variable."""
        self.summary.variables += 1
        return self.summary.variables

    def copy(self, source: Var, target: Var) -> None:
        """Copy the values of one variable to another."""
        if source and target and source != target:
            self.summary.copies.append((source, target))

    def join(self, operands: list[Var]) -> Var:
        """Return a variable that holds the values of all of these."""
        several = dict.fromkeys(var for var in operands if var)
        if len(several) < 2:
            return next(iter(several), 0)
        joined = self.new_var()
        for var in several:
            self.summary.copies.append((var, joined))
        return joined

    def constant(self, value: int | str) -> Var:
        """Return the variable of a literal."""
        var = self._constants.get(value)
        if var is None:
            var = self._constants[value] = self.new_var()
            self.summary.constants.append((var, value))
        return var

    def typed(self, name: str) -> Var:
        """Return the variable of an unknown value of a builtin type."""
        var = self._typed.get(name)
        if var is None:
            var = self._typed[name] = self.new_var()
            self.summary.typed.append((var, name))
        return var

    # --- names

    def read_name(self, name: str) -> Var:
        """Return the variable of a name at this point."""
        scope = self.scope
        if name not in self.shared:
            var = scope.current(name, self.new_var, self.copy)
            if var is not None:
                return var
        elif name in scope.declared:
            return self.shared_var(scope.declared[name], name)
        elif name in scope.assigned and scope.kind != "class":
            return self.shared_var(scope, name)
        if scope.kind == "module":
            return self.shared_var(scope, name)
        var = scope.pending.get(name)
        if var is None:
            var = scope.pending[name] = self.new_var()
        return var

    def shared_var(self, scope: NameScope, name: str) -> Var:
        """Return a scope's variable as other scopes see it: all that is ever assigned to it."""
        var = scope.shared_vars.get(name)
        if var is None:
            var = scope.shared_vars[name] = self.new_var()
        return var

    def resolve_pending(self, scope: NameScope) -> None:
        """Resolve the names that a scope read before assigning them."""
        for name, var in scope.pending.items():
            captured = self._captured(scope, name)
            if captured is not None:
                self.copy(captured, var)
                continue
            self.copy(self.shared_var(self._owner_of(scope, name), name), var)

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
        """Join the versions of variables that other scopes see; leave the others unresolved."""
        for scope in self.scopes:
            for name, var in scope.shared_vars.items():
                if scope is self.module and name not in scope.assigned:
                    self.summary.unknown_names.append((var, name))
                for assigned in dict.fromkeys(scope.assigned.get(name, ())):
                    self.copy(assigned, var)

    # --- definitions

    def define(self, kind: str, name: str, node: Node, signature: str | None) -> int:
        """Add a definition in the current scope."""
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
