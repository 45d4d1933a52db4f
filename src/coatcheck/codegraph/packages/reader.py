"""The common part of the readers for Java and Go."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tree_sitter import Node

from coatcheck.codegraph.python.names import MAX_DEPTH, MAX_SIGNATURE, Names
from coatcheck.codegraph.python.scopes import NameScope
from coatcheck.codegraph.summary import (
    DefinitionSummary,
    Function,
    ModuleSummary,
    Var,
)

_SPACE = re.compile(r"\s+")


class PackageReader(Names, ABC):
    """Variables and calls of a language with declarations.

    A name is one variable, from its declaration to the end of its block; the order of assignments
    is ignored.
    """

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.shared = set()
        self.variables: list[dict[str, Var]] = [{}]

    def file(self, root: Node) -> ModuleSummary:
        """Read a whole file."""
        end = root.end_point.row + 1
        self.summary.definitions.append(DefinitionSummary("module", "", "", 1, end, None, -1))
        self.read_file(root)
        self.finish()
        self.summary.exports = {
            name: self.shared_var(self.module, name) for name in self.module.assigned
        }
        return self.summary

    @abstractmethod
    def read_file(self, root: Node) -> None:
        """Read the declarations of a file."""

    def finish(self) -> None:
        """Resolve the names, those that other files may import included."""
        for name in self.module.assigned:
            self.shared_var(self.module, name)
        super().finish()

    # --- variables

    def local(self, name: str) -> Var | None:
        """Return a variable of the current function, or of one around it."""
        for names in reversed(self.variables):
            if name in names:
                return names[name]
        return None

    def declare_local(self, name: str, var: Var) -> None:
        """Declare a variable."""
        self.variables[-1][name] = var

    def by_name(self, name: str) -> Var:
        """Return the variable of a name of the file, the package or an import."""
        return self.shared_var(self.module, name)

    # --- constraints

    def load(self, base: Var, attribute: str, node: Node) -> Var:
        """Load an attribute."""
        if not base:
            return 0
        result = self.new_var()
        line = node.start_point.row + 1
        self.summary.loads.append((result, base, attribute, self.scope.caller, line))
        return result

    def store(self, base: Var, attribute: str, value: Var, node: Node) -> None:
        """Store to an attribute."""
        if base and value:
            line = node.start_point.row + 1
            self.summary.stores.append((base, attribute, value, self.scope.caller, line))

    def call(self, callee: Var, arguments: list[Var], node: Node) -> Var:
        """Record a call."""
        if not callee:
            return 0
        result = self.new_var()
        self.summary.calls.append(
            (
                result,
                callee,
                tuple(arguments),
                (),
                self.scope.caller,
                node.start_point.row + 1,
            )
        )
        return result

    def instance(self, cls: Var) -> Var:
        """Return the variable of an instance of a class."""
        var = self.new_var()
        self.summary.instances.append((var, cls))
        return var

    def annotate(self, var: Var, cls: Var) -> None:
        """Record a variable's declared type."""
        if var and cls:
            self.summary.annotations.append((var, cls))

    # --- functions

    def add_function(
        self,
        definition: int,
        positional: list[tuple[str, Var]],
        rest: Var,
        result: Var,
        owner: int,
    ) -> Var:
        """Add a function and return the variable of its value."""
        self.summary.functions.append(
            Function(
                definition, tuple(positional), rest, (), 0, (), result, (), (), 0, False, owner
            )
        )
        var = self.new_var()
        self.summary.function_values.append((var, len(self.summary.functions) - 1))
        return var

    def enter(self, kind: str, definition: int, caller: int) -> NameScope:
        """Enter the scope of a definition; return the scope around it."""
        outer = self.scope
        self.scope = NameScope(kind, outer, definition, caller)
        return outer

    def signature(self, text: str) -> str:
        """Return a signature on one line, truncated."""
        return _SPACE.sub(" ", text)[:MAX_SIGNATURE]

    def read_operands(self, node: Node) -> Var:
        """Read a sum, which is as deep as it is long, in a loop."""
        operands: list[Node] = []
        inner: Node | None = node
        while inner is not None and inner.type == "binary_expression":
            right = inner.child_by_field_name("right")
            if right is not None:
                operands.append(right)
            inner = inner.child_by_field_name("left")
        for operand in ([inner] if inner is not None else []) + operands[::-1]:
            self.expression(operand)
        return 0

    @abstractmethod
    def expression(self, node: Node) -> Var:
        """Read an expression; return the variable of its value."""

    def too_deep(self, node: Node) -> bool:
        """Tell whether the nesting is too deep to continue."""
        if self.depth > MAX_DEPTH:
            self.too_deep_line = self.too_deep_line or node.start_point.row + 1
            return True
        return False
