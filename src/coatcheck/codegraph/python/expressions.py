"""Reads expressions; each returns the variable of its value, 0 if the value does not matter.

Chains (`a.b().c[0]`) and sums lean to the left in the tree, as deep as they are long; a loop reads
them.

Without calls, a value matters only if it can be a base class: names, attributes and alternatives.
Arguments, elements and operands are read only if they are relevant.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.python.names import MAX_CONSTANT_LENGTH, MAX_DEPTH, Names
from coatcheck.codegraph.summary import Element, Key, Var

_CHAINS = {"call": "function", "attribute": "object", "subscript": "value"}
_LEANING = {"binary_operator", "boolean_operator"}
_BINARY = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "//": "__floordiv__",
    "%": "__mod__", "**": "__pow__", "@": "__matmul__", "&": "__and__", "|": "__or__",
    "^": "__xor__", "<<": "__lshift__", ">>": "__rshift__",
}  # fmt: skip
_COMPARISONS = {
    "==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__",
}  # fmt: skip
_QUOTES = b"'\""
_UNARY = {"-": "__neg__", "+": "__pos__", "~": "__invert__"}
_BRACKETS = {"list": "list", "tuple": "tuple", "set": "set", "expression_list": "tuple"}
_COMPREHENSIONS = {
    "list_comprehension": "list",
    "set_comprehension": "set",
    "generator_expression": "list",
}


class Expressions(Names, ABC):
    """Reads expressions."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        # Half of all expressions have no children.
        self._leaves: dict[str, Callable[[Node], Var]] = {
            "identifier": lambda node: self.read_name(self.text(node)),
            "integer": self._integer,
            "float": lambda _: self.typed("float"),
            "comment": lambda _: 0,
            "true": lambda _: 0,
            "false": lambda _: 0,
            "none": lambda _: 0,
            "ellipsis": lambda _: 0,
            "type": lambda _: 0,
        }
        self._readers: dict[str, Callable[[Node], Var]] = {
            "string": self._string,
            "concatenated_string": self._concatenated,
            "list": self._brackets,
            "tuple": self._brackets,
            "set": self._brackets,
            "expression_list": self._brackets,
            "dictionary": self._dictionary,
            "list_comprehension": self._comprehension,
            "set_comprehension": self._comprehension,
            "generator_expression": self._comprehension,
            "dictionary_comprehension": self._comprehension,
            "lambda": self.lambda_,
            "conditional_expression": self._conditional,
            "comparison_operator": self._comparison,
            "not_operator": self._discard,
            "unary_operator": self._unary,
            "await": self._await,
            "yield": self._yield,
            "named_expression": self._walrus,
            "assignment": self.assignment,
            "augmented_assignment": self.augmented_assignment,
            "list_splat": self._discard,
            "keyword_argument": self._discard,
        }

    @abstractmethod
    def lambda_(self, node: Node) -> Var:
        """Read a lambda (definitions.py)."""

    @abstractmethod
    def assignment(self, node: Node) -> Var:
        """Read an assignment (statements.py)."""

    @abstractmethod
    def augmented_assignment(self, node: Node) -> Var:
        """Read an augmented assignment (statements.py)."""

    @abstractmethod
    def bind_target(self, target: Node, value: Var) -> None:
        """Assign to a target (statements.py)."""

    def expression(self, node: Node) -> Var:
        """Read an expression."""
        while node.type == "parenthesized_expression" and node.named_child_count:
            node = node.named_children[0]
        kind = node.type
        leaf = self._leaves.get(kind)
        if leaf is not None:
            return leaf(node)
        if kind == "string" and self.source[node.start_byte] in _QUOTES:
            return self._plain_string(node)
        self.depth += 1
        try:
            if self.depth > MAX_DEPTH:
                self.too_deep_line = self.too_deep_line or node.start_point.row + 1
                return 0
            if kind in _CHAINS:
                return self._chain(node)
            if kind in _LEANING:
                return self._left_chain(node)
            reader = self._readers.get(kind)
            return self._discard(node) if reader is None else reader(node)
        finally:
            self.depth -= 1

    def operand(self, node: Node) -> Var:
        """Read an expression whose value only calls need."""
        return self.expression(node) if self.has_effect(node) else 0

    def _discard(self, node: Node) -> Var:
        if self.has_effect(node):
            for child in node.named_children:
                self.expression(child)
        return 0

    # --- chains

    def _chain(self, node: Node) -> Var:
        links = []
        while (field := _CHAINS.get(node.type)) is not None:
            links.append(node)
            inner = node.child_by_field_name(field)
            if inner is None:
                break
            node = inner
            while node.type == "parenthesized_expression" and node.named_child_count:
                node = node.named_children[0]
        if links and links[-1].type == "call" and self._is_super(links[-1], node):
            var = self._super(links.pop())
        else:
            var = self.expression(node) if node is not links[-1] else 0
        for link in reversed(links):
            if link.type == "call":
                var = self._call(link, var)
            elif link.type == "attribute":
                var = self._attribute(link, var)
            else:
                var = self._subscript(link, var)
        return var

    def _attribute(self, node: Node, base: Var) -> Var:
        name = node.child_by_field_name("attribute")
        if not base or name is None:
            return 0
        result = self.new_var()
        self.summary.loads.append(
            (result, base, self.text(name), self.scope.caller, node.end_point.row + 1)
        )
        return result

    def _subscript(self, node: Node, base: Var) -> Var:
        keys = node.children_by_field_name("subscript")
        if len(keys) == 1 and keys[0].type == "slice":
            self._discard(keys[0])
            if not base:
                return 0
            result = self.new_var()
            copied = self.new_var()
            line, caller = node.start_point.row + 1, self.scope.caller
            # A slice keeps the container's type, but not the keys of its elements.
            self.summary.items.append((result, base, None, -1, caller, line))
            self.summary.containers.append((copied, "list", ((None, 0, result),)))
            self.copy(base, copied)
            return copied
        operands = [self.operand(key) for key in keys]
        if not base or len(keys) != 1:
            return 0
        result = self.new_var()
        self.summary.items.append(
            (
                result,
                base,
                self.literal_key(keys[0]),
                operands[0],
                self.scope.caller,
                node.start_point.row + 1,
            )
        )
        return result

    def literal_key(self, node: Node) -> Key:
        """Return a literal key, or None."""
        if node.type == "integer":
            return self._number(node)
        if node.type == "unary_operator" and node.named_child_count == 1:
            number = node.named_children[0]
            value = self._number(number) if number.type == "integer" else None
            return -value if value is not None and node.children[0].type == "-" else None
        return self._literal_string(node) if node.type == "string" else None

    def _number(self, node: Node) -> int | None:
        try:
            return int(self.text(node), 0)
        except ValueError:
            return None

    # --- calls

    def _call(self, node: Node, callee: Var) -> Var:
        arguments = node.child_by_field_name("arguments")
        positional: list[Var] = []
        keywords: list[tuple[str | None, Var]] = []
        if arguments is not None and self.has_effect(arguments):
            if arguments.type == "generator_expression":
                positional.append(self.expression(arguments))
            else:
                self.arguments(arguments, positional, keywords)
        if not callee:
            return 0
        result = self.new_var()
        self.summary.calls.append(
            (
                result,
                callee,
                tuple(positional),
                tuple(keywords),
                self.scope.caller,
                node.start_point.row + 1,
            )
        )
        return result

    def arguments(
        self, node: Node, positional: list[Var], keywords: list[tuple[str | None, Var]]
    ) -> None:
        """Read the arguments of a call or the bases of a class."""
        for argument in node.named_children:
            kind = argument.type
            if kind == "keyword_argument":
                name = argument.child_by_field_name("name")
                value = argument.child_by_field_name("value")
                if name is not None and value is not None:
                    keywords.append((self.text(name), self.expression(value)))
            elif kind == "list_splat":
                # `-0` would be no splat: an empty variable stands for an unknown value.
                positional.append(-(self.expression(argument.named_children[0]) or self.new_var()))
            elif kind == "dictionary_splat":
                keywords.append((None, self.expression(argument.named_children[0])))
            elif kind != "comment":
                positional.append(self.expression(argument))

    def _is_super(self, call: Node, name: Node) -> bool:
        return (
            name.type == "identifier"
            and self.scope.owner >= 0
            and self.text(name) == "super"
            and "super" not in self.module.assigned
            and call.child_by_field_name("function") == name
        )

    def _super(self, node: Node) -> Var:
        line, caller = node.start_point.row + 1, self.scope.caller
        result = self.new_var()
        self._call(node, self.shared_var(self.module, "super"))
        del self.summary.calls[-1]
        self.summary.supers.append((result, self.scope.owner, self.scope.first_parameter))
        self.summary.calls.append((0, self.shared_var(self.module, "super"), (), (), caller, line))
        return result

    # --- operators

    def _left_chain(self, node: Node) -> Var:
        links = []
        while node.type in _LEANING:
            links.append(node)
            left = node.child_by_field_name("left")
            if left is None:
                break
            node = left
            while node.type == "parenthesized_expression" and node.named_child_count:
                node = node.named_children[0]
        var = self.expression(node) if node is not links[-1] else 0
        for link in reversed(links):
            right = link.child_by_field_name("right")
            operator = link.child_by_field_name("operator")
            if link.type == "boolean_operator":
                mark = self.scope.begin_branch()
                value = self.expression(right) if right is not None else 0
                self.scope.merge_branches([self.scope.end_branch(mark), {}], self.join)
                # `a and b` is `a` only if `a` is false, and a false value is rarely called.
                is_and = operator is not None and operator.type == "and"
                var = (value if is_and else 0) or self.join([var, value])
                continue
            value = self.operand(right) if right is not None else 0
            method = _BINARY.get(operator.type if operator is not None else "")
            var = self.operator(link, var, method, value)
        return var

    def operator(self, node: Node, left: Var, method: str | None, right: Var) -> Var:
        """Record a call of the left operand's special method."""
        if not left or method is None:
            return 0
        result = self.new_var()
        self.summary.operators.append(
            (result, left, method, (right,), self.scope.caller, node.start_point.row + 1)
        )
        return result

    def _comparison(self, node: Node) -> Var:
        if not self.has_effect(node):
            return 0
        operands: list[Var] = []
        methods: list[str] = []
        for child in node.children:
            if child.is_named:
                operands.append(self.expression(child))
            else:
                methods.append(child.type)
        for index, method in enumerate(methods[: len(operands) - 1]):
            left, right = operands[index], operands[index + 1]
            if method in _COMPARISONS:
                self.operator(node, left, _COMPARISONS[method], right)
            elif method in {"in", "not in"}:
                self.operator(node, right, "__contains__", left)
        return 0

    def _unary(self, node: Node) -> Var:
        value = self.expression(node.named_children[0])
        if not value:
            return 0
        if (written := self.literal_key(node)) is not None:
            return self.constant(written)
        result = self.new_var()
        self.summary.operators.append(
            (
                result,
                value,
                _UNARY.get(node.children[0].type, "__neg__"),
                (),
                self.scope.caller,
                node.start_point.row + 1,
            )
        )
        return result

    def _conditional(self, node: Node) -> Var:
        parts = [child for child in node.named_children if child.type != "comment"]
        if len(parts) != 3:
            return self._discard(node)
        self.operand(parts[1])
        return self.join([self.expression(parts[0]), self.expression(parts[2])])

    def _walrus(self, node: Node) -> Var:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or value is None:
            return 0
        var = self.expression(value)
        self.scope.assign(self.text(name), var)
        return var

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
        if not yields:
            return 0
        if node.children[1:] and node.children[1].type == "from":
            if not value:
                return 0
            element, result = self.new_var(), self.new_var()
            line, caller = node.start_point.row + 1, self.scope.caller
            self.summary.iterations.append((element, value, False, caller, line))
            self.copy(element, yields)
            # The result of the inner generator is the value of `yield from`.
            self.summary.awaits.append((result, value, caller, line))
            return result
        self.copy(value, yields)
        return 0

    @abstractmethod
    def generator_values(self) -> Var:
        """Return the variable of the values that the current function yields (definitions.py)."""

    # --- literals

    def _string(self, node: Node) -> Var:
        if b"f" in self.source[node.start_byte : node.start_byte + 2].lower():
            if self.has_effect(node):
                self._interpolated(node)
            return self.typed("str")
        return self._plain_string(node)

    def _plain_string(self, node: Node) -> Var:
        written = self._literal_string(node) if self.with_calls else None
        return self.constant(written) if isinstance(written, str) else self.typed("str")

    def _interpolated(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "interpolation" and child.named_children:
                value = self.expression(child.named_children[0])
                if value:
                    self.summary.operators.append(
                        (0, value, "__format__", (), self.scope.caller, child.start_point.row + 1)
                    )

    def _literal_string(self, node: Node) -> str | None:
        if node.end_byte - node.start_byte > MAX_CONSTANT_LENGTH:
            return None
        text = self.text(node)
        if text[:1] in {"'", '"'} and "\\" not in text:
            return text[3:-3] if text[:3] in {"'''", '"""'} else text[1:-1]
        return None

    def _concatenated(self, node: Node) -> Var:
        self._discard(node)
        return self.typed("str")

    def _integer(self, node: Node) -> Var:
        number = self._number(node) if self.with_calls else None
        return self.constant(number) if number is not None else self.typed("int")

    def _brackets(self, node: Node) -> Var:
        if not self.has_effect(node):
            return self.new_var()
        elements: list[Element] = []
        known = True
        for child in node.named_children:
            if child.type == "comment":
                continue
            if child.type == "list_splat":
                elements.append((None, -1, self.expression(child.named_children[0])))
                known = False
            else:
                # After a splat, the index of an element is unknown.
                key = len(elements) if known else None
                elements.append((key, 0, self.expression(child)))
        return self.container(_BRACKETS[node.type], elements)

    def container(self, kind: str, elements: list[Element]) -> Var:
        """Create a container with these elements."""
        result = self.new_var()
        self.summary.containers.append((result, kind, tuple(elements)))
        return result

    def _dictionary(self, node: Node) -> Var:
        if not self.has_effect(node):
            return self.new_var()
        elements: list[Element] = []
        for child in node.named_children:
            if child.type == "pair":
                key, value = child.child_by_field_name("key"), child.child_by_field_name("value")
                if key is None or value is None:
                    continue
                key_var = self.expression(key)
                written = self.literal_key(key)
                var = self.expression(value)
                elements.append((written, 0 if written is not None else key_var, var))
            elif child.type == "dictionary_splat":
                elements.append((None, -1, self.expression(child.named_children[0])))
        return self.container("dict", elements)

    def _comprehension(self, node: Node) -> Var:
        if not self.has_effect(node):
            return self.new_var()
        body = node.child_by_field_name("body")
        mark = self.scope.begin_branch()
        around = dict(self.scope.local_names)
        for clause in node.named_children:
            if clause.type == "for_in_clause":
                self._comprehension_for(clause)
            elif clause.type == "if_clause":
                self._discard(clause)
        elements: list[Element] = []
        if body is not None and body.type == "pair":
            key, value = body.child_by_field_name("key"), body.child_by_field_name("value")
            key_var = self.expression(key) if key is not None else 0
            if value is not None:
                elements.append((None, key_var, self.expression(value)))
        elif body is not None:
            elements.append((None, 0, self.expression(body)))
        self.scope.end_branch(mark)
        self.scope.local_names = around
        return self.container(_COMPREHENSIONS.get(node.type, "dict"), elements)

    def _comprehension_for(self, clause: Node) -> None:
        left, right = clause.child_by_field_name("left"), clause.child_by_field_name("right")
        if left is None or right is None:
            return
        value = self.expression(right)
        element = self.new_var() if value else 0
        if value:
            is_async = any(child.type == "async" for child in clause.children)
            self.summary.iterations.append(
                (element, value, is_async, self.scope.caller, clause.start_point.row + 1)
            )
        self.bind_local(left, element)

    def bind_local(self, target: Node, value: Var) -> None:
        """Bind the variables of a comprehension, which only the comprehension sees."""
        self.scope.is_binding_local = True
        self.bind_target(target, value)
        self.scope.is_binding_local = False
