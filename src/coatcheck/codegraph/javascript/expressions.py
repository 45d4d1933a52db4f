"""Reads expressions of JavaScript and TypeScript; each returns the variable of its value."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.python.names import MAX_CONSTANT_LENGTH, MAX_DEPTH, Names
from coatcheck.codegraph.summary import Element, Key, Var

_CHAINS = {
    "call_expression": "function",
    "member_expression": "object",
    "subscript_expression": "object",
    "non_null_expression": None,
    "parenthesized_expression": None,
    "as_expression": None,
    "satisfies_expression": None,
}
# Possessive, so that the search does not retry with part of a word.
_ASSIGNED = re.compile(rb"(?<![.\w$])([A-Za-z_$][\w$]*+)\s*+(?:=(?![=>])|[-+*/|&?]{1,2}=)")
_DECLARED = re.compile(rb"\b(?:const|let|var)\s++([A-Za-z_$][\w$]*+)\s*+=(?![=>])")
FUNCTIONS = {
    "function_expression",
    "arrow_function",
    "generator_function",
    "function_declaration",
    "generator_function_declaration",
    "method_definition",
}
# A variable in `unknown_names` under these names decorates a member of a class.
CLASS_METHOD, PROPERTY = "%classmethod", "%property"


class JavaScriptExpressions(Names, ABC):
    """Reads expressions."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self.shared = self._reassigned(source)
        self._readers: dict[str, Callable[[Node], Var]] = {
            "identifier": lambda node: self.read_name(self.text(node)),
            "shorthand_property_identifier": lambda node: self.read_name(self.text(node)),
            "this": lambda _: self.read_name("this"),
            "super": lambda _: self.super_(),
            "string": self._string,
            "template_string": self._template,
            "number": self._number,
            "array": self._array,
            "object": self._object,
            "ternary_expression": self._ternary,
            "binary_expression": self._binary,
            "assignment_expression": self._assignment,
            "augmented_assignment_expression": self._discard,
            "await_expression": self._await,
            "yield_expression": self._yield,
            "new_expression": self._new,
            "class": self.class_,
            "sequence_expression": self._sequence,
            "jsx_self_closing_element": self._jsx,
            "jsx_opening_element": self._jsx,
            "comment": lambda _: 0,
        }
        for kind in FUNCTIONS:
            self._readers[kind] = self.function

    @staticmethod
    def _reassigned(source: bytes) -> set[str]:
        """Return the names that are assigned after their declaration, maybe by other functions."""
        counts: dict[bytes, int] = {}
        for name in _ASSIGNED.findall(source):
            counts[name] = counts.get(name, 0) + 1
        for name in _DECLARED.findall(source):
            counts[name] = counts.get(name, 0) - 1
        return {name.decode() for name, count in counts.items() if count > 0}

    @abstractmethod
    def function(self, node: Node) -> Var:
        """Read a function (definitions.py)."""

    @abstractmethod
    def class_(self, node: Node) -> Var:
        """Read a class (definitions.py)."""

    @abstractmethod
    def super_(self) -> Var:
        """Return the variable of `super` (definitions.py)."""

    @abstractmethod
    def bind_target(self, target: Node, value: Var) -> None:
        """Assign to a target (statements.py)."""

    @abstractmethod
    def generator_values(self) -> Var:
        """Return the variable of the values that the current function yields (definitions.py)."""

    def named_expression(self, name: str, node: Node) -> Var:
        """Read an expression that takes a name, as functions and classes do."""
        self.pending_name = name
        var = self.expression(node)
        self.pending_name = None
        return var

    pending_name: str | None = None

    def expression(self, node: Node) -> Var:
        """Read an expression."""
        kind = node.type
        if kind == "identifier":
            return self.read_name(self.text(node))
        if kind not in FUNCTIONS and kind != "class":
            self.pending_name = None
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                self.too_deep_line = self.too_deep_line or node.start_point.row + 1
                return 0
            if kind in _CHAINS:
                return self._chain(node)
            reader = self._readers.get(kind)
            return self._discard(node) if reader is None else reader(node)
        finally:
            self.depth -= 1

    def _discard(self, node: Node) -> Var:
        for child in node.named_children:
            self.expression(child)
        return 0

    # --- chains

    def _chain(self, node: Node) -> Var:
        links = []
        while node.type in _CHAINS:
            field = _CHAINS[node.type]
            inner = node.child_by_field_name(field) if field else None
            if field is None:
                inner = node.named_children[0] if node.named_children else None
            else:
                links.append(node)
            if inner is None:
                break
            node = inner
        var = self.expression(node) if not links or node is not links[-1] else 0
        is_super = node.type == "super"
        for link in reversed(links):
            if link.type == "call_expression":
                if is_super:
                    var = self.load(var, "__init__", link)
                var = self._call(link, var)
            elif link.type == "member_expression":
                name = link.child_by_field_name("property")
                var = self.load(var, self.text(name), link) if name is not None else 0
            else:
                var = self._subscript(link, var)
            is_super = False
        return var

    def load(self, base: Var, attribute: str, node: Node) -> Var:
        """Load an attribute."""
        if not base:
            return 0
        result = self.new_var()
        line = node.end_point.row + 1
        self.summary.loads.append((result, base, attribute, self.scope.caller, line))
        return result

    def _subscript(self, node: Node, base: Var) -> Var:
        key = node.child_by_field_name("index")
        var = self.expression(key) if key is not None else 0
        if not base or key is None:
            return 0
        result = self.new_var()
        line, caller = node.start_point.row + 1, self.scope.caller
        self.summary.items.append((result, base, self.literal_var(key), var, caller, line))
        return result

    def literal_var(self, node: Node) -> Key:
        """Return a literal key."""
        if node.type == "number":
            text = self.text(node)
            return int(text) if text.isdigit() else None
        if node.type == "string" and node.end_byte - node.start_byte < MAX_CONSTANT_LENGTH:
            return self.text(node)[1:-1]
        return None

    def _call(self, node: Node, callee: Var) -> Var:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        required = self._required(function, arguments)
        if required is not None:
            var = self.new_var()
            caller, line = self.scope.caller, node.start_point.row + 1
            self.summary.imports.append((var, 0, required, None, caller, line))
            return var
        return self.call(node, callee, arguments)

    def call(self, node: Node, callee: Var, arguments: Node | None) -> Var:
        """Record a call of a variable with arguments."""
        positional: list[Var] = []
        if arguments is not None and arguments.type == "arguments":
            for argument in arguments.named_children:
                if argument.type == "spread_element":
                    inner = self.expression(argument.named_children[0])
                    positional.append(-(inner or self.new_var()))
                elif argument.type != "comment":
                    positional.append(self.expression(argument))
        elif arguments is not None:
            self.expression(arguments)
        if not callee:
            return 0
        result = self.new_var()
        line = node.start_point.row + 1
        self.summary.calls.append((result, callee, tuple(positional), (), self.scope.caller, line))
        return result

    def _required(self, function: Node | None, arguments: Node | None) -> str | None:
        """Return the module that `require("...")` or `import("...")` names."""
        if (
            function is None
            or arguments is None
            or self.text(function) not in {"require", "import"}
        ):
            return None
        given = arguments.named_children
        written = self.literal_var(given[0]) if len(given) == 1 else None
        return written if isinstance(written, str) else None

    def _new(self, node: Node) -> Var:
        constructor = node.child_by_field_name("constructor")
        callee = self.expression(constructor) if constructor is not None else 0
        return self.call(node, callee, node.child_by_field_name("arguments"))

    def _jsx(self, node: Node) -> Var:
        """Read an element: a component of the archive is called with its properties."""
        name = node.child_by_field_name("name")
        callee = 0
        if name is not None and (self.text(name)[:1].isupper() or name.type != "identifier"):
            callee = self.expression(name)
        properties: list[Element] = []
        for child in node.named_children:
            if child.type == "jsx_attribute" and len(child.named_children) == 2:
                value = (
                    self.expression(child.named_children[1].named_children[0])
                    if (child.named_children[1].named_children)
                    else 0
                )
                properties.append((self.text(child.named_children[0]), 0, value))
            elif child.type == "jsx_expression":
                self._discard(child)
        if not callee:
            return 0
        given = self.new_var()
        self.summary.containers.append((given, "object", tuple(properties)))
        result = self.new_var()
        line = node.start_point.row + 1
        self.summary.calls.append((result, callee, (given,), (), self.scope.caller, line))
        return result

    # --- operators

    def _ternary(self, node: Node) -> Var:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.expression(condition)
        parts = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
        return self.join([self.expression(part) for part in parts if part is not None])

    def _binary(self, node: Node) -> Var:
        links = []
        while node.type == "binary_expression":
            links.append(node)
            left = node.child_by_field_name("left")
            if left is None:
                break
            node = left
        var = self.expression(node) if node is not links[-1] else 0
        for link in reversed(links):
            right = link.child_by_field_name("right")
            operator = link.child_by_field_name("operator")
            value = self.expression(right) if right is not None else 0
            kind = operator.type if operator is not None else ""
            var = self.join([var, value]) if kind in {"||", "??"} else value * (kind == "&&")
        return var

    def _assignment(self, node: Node) -> Var:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return 0
        name = left if left.type == "identifier" else left.child_by_field_name("property")
        value = (
            self.named_expression(self.text(name), right)
            if name is not None
            else self.expression(right)
        )
        self.bind_target(left, value)
        return value

    def _await(self, node: Node) -> Var:
        value = self.expression(node.named_children[0]) if node.named_children else 0
        if not value:
            return 0
        result = self.new_var()
        self.summary.awaits.append((result, value, self.scope.caller, node.start_point.row + 1))
        return result

    def _yield(self, node: Node) -> Var:
        yields = self.generator_values()
        value = self.expression(node.named_children[0]) if node.named_children else 0
        if any(child.type == "*" for child in node.children) and value:
            element = self.new_var()
            line, caller = node.start_point.row + 1, self.scope.caller
            self.summary.iterations.append((element, value, False, caller, line))
            value = element
        self.copy(value, yields)
        return 0

    def _sequence(self, node: Node) -> Var:
        operands = [self.expression(child) for child in node.named_children]
        return operands[-1] if operands else 0

    # --- literals

    def _string(self, node: Node) -> Var:
        written = self.literal_var(node)
        return self.constant(written) if isinstance(written, str) else self.typed("str")

    def _template(self, node: Node) -> Var:
        self._discard(node)
        return self.typed("str")

    def _number(self, node: Node) -> Var:
        written = self.literal_var(node)
        return self.constant(written) if written is not None else self.typed("float")

    def _array(self, node: Node) -> Var:
        elements: list[Element] = []
        known = True
        for child in node.named_children:
            if child.type == "comment":
                continue
            if child.type == "spread_element":
                elements.append((None, -1, self.expression(child.named_children[0])))
                known = False
            else:
                key = len(elements) if known else None
                elements.append((key, 0, self.expression(child)))
        return self.container("list", elements)

    def container(self, kind: str, elements: list[Element]) -> Var:
        """Create a container."""
        result = self.new_var()
        self.summary.containers.append((result, kind, tuple(elements)))
        return result

    def _object(self, node: Node) -> Var:
        """Read an object literal, the `this` of its functions."""
        elements: list[Element] = []
        result = self.new_var()
        outer, self.object_var = self.object_var, result
        for child in node.named_children:
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is None or value is None:
                    continue
                if key.type == "computed_property_name":
                    key_var = self.expression(key.named_children[0])
                    elements.append((None, key_var, self.expression(value)))
                    continue
                name = self.property_name(key)
                elements.append((name, 0, self.named_expression(name, value)))
            elif child.type == "shorthand_property_identifier":
                name = self.text(child)
                elements.append((name, 0, self.read_name(name)))
            elif child.type == "method_definition":
                key = child.child_by_field_name("name")
                if key is not None:
                    elements.append((self.property_name(key), 0, self.function(child)))
            elif child.type == "spread_element":
                elements.append((None, -1, self.expression(child.named_children[0])))
        self.object_var = outer
        self.summary.containers.append((result, "object", tuple(elements)))
        return result

    object_var: Var = 0

    def property_name(self, node: Node) -> str:
        """Return the name of a property, without quotes."""
        text = self.text(node)
        return text[1:-1] if node.type == "string" else text
