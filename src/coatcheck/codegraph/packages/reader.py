"""What reading Java and reading Go have in common."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from tree_sitter import Node

from coatcheck.codegraph.python.names import DEEPEST, LONGEST_SIGNATURE, Names
from coatcheck.codegraph.python.scopes import NameScope
from coatcheck.codegraph.python.summary import (
    DefinitionSummary,
    Function,
    Place,
    PythonSummary,
)

_SPACE = re.compile(r"\s+")


class PackageReader(Names, ABC):
    """Places, variables and calls of a language with declarations.

    A variable is one place, from where it is declared to the end of its block; the order of
    assignments is not followed.
    """

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.shared = set()
        self.variables: list[dict[str, Place]] = [{}]

    def file(self, root: Node) -> PythonSummary:
        """Read a whole file."""
        end = root.end_point.row + 1
        self.summary.definitions.append(DefinitionSummary("module", "", "", 1, end, None, -1))
        self.read_file(root)
        self.finish()
        self.summary.exports = {
            name: self.outside(self.module, name) for name in self.module.assigned
        }
        return self.summary

    @abstractmethod
    def read_file(self, root: Node) -> None:
        """Read the declarations of a file."""

    def finish(self) -> None:
        """Settle the names, also those that others may ask for."""
        for name in self.module.assigned:
            self.outside(self.module, name)
        super().finish()

    # --- variables

    def local(self, name: str) -> Place | None:
        """Return a variable of the function that is read, or of one around it."""
        for names in reversed(self.variables):
            if name in names:
                return names[name]
        return None

    def declare_local(self, name: str, place: Place) -> None:
        """Declare a variable."""
        self.variables[-1][name] = place

    def by_name(self, name: str) -> Place:
        """Return what a name of the file, the package or an import stands for."""
        return self.outside(self.module, name)

    # --- statements about places

    def load(self, base: Place, attribute: str, node: Node) -> Place:
        """Read an attribute."""
        if not base:
            return 0
        result = self.place()
        line = node.start_point.row + 1
        self.summary.loads.append((result, base, attribute, self.scope.runner, line))
        return result

    def store(self, base: Place, attribute: str, value: Place, node: Node) -> None:
        """Write an attribute."""
        if base and value:
            line = node.start_point.row + 1
            self.summary.stores.append((base, attribute, value, self.scope.runner, line))

    def call(self, callee: Place, arguments: list[Place], node: Node) -> Place:
        """Note a call."""
        if not callee:
            return 0
        result = self.place()
        self.summary.calls.append(
            (
                result,
                callee,
                tuple(arguments),
                (),
                self.scope.runner,
                node.start_point.row + 1,
            )
        )
        return result

    def instance(self, cls: Place) -> Place:
        """Return a place of an instance of a class."""
        place = self.place()
        self.summary.instances.append((place, cls))
        return place

    def believe(self, place: Place, cls: Place) -> None:
        """Say what a place is declared as."""
        if place and cls:
            self.summary.hints.append((place, cls))

    # --- functions

    def add_function(
        self,
        definition: int,
        positional: list[tuple[str, Place]],
        rest: Place,
        result: Place,
        owner: int,
    ) -> Place:
        """Add a function and return the place of its value."""
        self.summary.functions.append(
            Function(
                definition, tuple(positional), rest, (), 0, (), result, (), (), 0, False, owner
            )
        )
        place = self.place()
        self.summary.function_values.append((place, len(self.summary.functions) - 1))
        return place

    def enter(self, kind: str, definition: int, runner: int) -> NameScope:
        """Begin to read a definition's inside; the scope around it is returned."""
        outer = self.scope
        self.scope = NameScope(kind, outer, definition, runner)
        return outer

    def signature(self, text: str) -> str:
        """Return a signature on one line, not too long."""
        return _SPACE.sub(" ", text)[:LONGEST_SIGNATURE]

    def read_operands(self, node: Node) -> Place:
        """Read a sum, which leans to the left as deep as it is long, in a loop."""
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
    def expression(self, node: Node) -> Place:
        """Read an expression; return the place of its value."""

    def too_deep(self, node: Node) -> bool:
        """Tell whether to go no deeper."""
        if self.depth > DEEPEST:
            self.too_deep_line = self.too_deep_line or node.start_point.row + 1
            return True
        return False
