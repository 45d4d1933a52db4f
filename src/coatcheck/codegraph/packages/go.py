"""Reads Go."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.packages.reader import PackageReader
from coatcheck.codegraph.python.names import depth_limited
from coatcheck.codegraph.summary import (
    Class,
    DefinitionSummary,
    Element,
    Var,
)

_CHAINS = {"call_expression": "function", "selector_expression": "operand"}


class GoReader(PackageReader):
    """Reads a Go file."""

    relevant = re.compile(rb"\b(?:func|type)\b")

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._types: dict[str, int] = {}  # definitions of the file's types
        self._results: list[tuple[Var, int]] = []
        self._readers: dict[str, Callable[[Node], Var]] = {
            "identifier": lambda node: self._name(self.text(node)),
            "short_var_declaration": self._assignment,
            "assignment_statement": self._assignment,
            "var_spec": self._variables,
            "composite_literal": self._composite,
            "unary_expression": self._inner,
            "parenthesized_expression": self._inner,
            "binary_expression": self.read_operands,
            "func_literal": self._literal,
            "type_assertion_expression": self._assertion,
            "index_expression": self._index,
            "return_statement": self._return,
            "range_clause": self._range,
            "block": self._block,
            "for_statement": self._block,
            "if_statement": self._block,
        }

    def read_file(self, root: Node) -> None:
        """Read the declarations of a file."""
        for child in root.named_children:
            if child.type == "package_clause":
                self.summary.package = self.text(child.named_children[0])
            elif child.type == "import_declaration":
                self._imports(child)
            elif child.type == "type_declaration":
                for spec in child.named_children:
                    self._type_spec(spec)
        for child in root.named_children:
            if child.type == "function_declaration":
                self._function(child)
            elif child.type == "method_declaration":
                self._method(child)
            elif child.type in {"var_declaration", "const_declaration"}:
                self._top_variables(child)

    def _imports(self, node: Node) -> None:
        waiting = list(node.named_children)
        while waiting:
            spec = waiting.pop(0)
            if spec.type == "import_spec_list":
                waiting.extend(spec.named_children)
                continue
            path = spec.child_by_field_name("path")
            if spec.type != "import_spec" or path is None:
                continue
            source = self.text(path).strip('"`')
            written = spec.child_by_field_name("name")
            name = self.text(written) if written is not None else _last(source)
            var = self.new_var()
            line = spec.start_point.row + 1
            self.summary.imports.append((var, 0, source, None, 0, line))
            # An import belongs to the file, not to the package.
            self.variables[0][name] = var

    # --- types

    def _type_spec(self, node: Node) -> None:
        name, kind = node.child_by_field_name("name"), node.child_by_field_name("type")
        if name is None or kind is None:
            return
        shown = self.text(name)
        definition = self.define("class", shown, node, shown)
        self._types[shown] = definition
        var = self.new_var()
        index = len(self.summary.classes)
        self.summary.class_values.append((var, index))
        self.module.assign(shown, var)
        bases: list[Var] = []
        if kind.type == "struct_type":
            this = self.instance(var)
            fields = kind.named_children[0] if kind.named_children else None
            for field in fields.named_children if fields is not None else ():
                self._field(field, this, bases)
        self.summary.classes.append(Class(definition, tuple(bases), 0, (), ()))

    def _field(self, field: Node, this: Var, bases: list[Var]) -> None:
        if field.type != "field_declaration":
            return
        kind = field.child_by_field_name("type")
        names = field.children_by_field_name("name")
        if not names:
            embedded = self._type(kind)
            if embedded and kind is not None:
                bases.append(embedded)
                inner = self.instance(embedded)
                self.store(this, _last(self.text(kind).lstrip("*"), "."), inner, field)
            return
        for name in names:
            var = self.new_var()
            self._declare_type(var, kind)
            self.store(this, self.text(name), var, field)

    def _type(self, node: Node | None) -> Var:
        while node is not None and node.type in {"pointer_type", "generic_type"}:
            node = node.named_children[0] if node.named_children else None
        if node is None:
            return 0
        if node.type == "type_identifier":
            return self.by_name(self.text(node))
        if node.type == "qualified_type":
            package, name = node.named_children[0], node.named_children[-1]
            return self.load(self._name(self.text(package)), self.text(name), node)
        return 0

    def _declare_type(self, var: Var, node: Node | None) -> None:
        """Record a declared type; of slices and maps, the type of the elements."""
        while node is not None and node.type == "pointer_type":
            node = node.named_children[0]
        if node is None:
            return
        if node.type in {"slice_type", "array_type", "map_type", "channel_type"}:
            element = self.new_var()
            self._declare_element(node, element)
            kind = "dict" if node.type == "map_type" else "list"
            self._hold(var, self._container(kind, [(None, 0, element)]))
        else:
            self.annotate(var, self._type(node))

    @depth_limited(None)
    def _declare_element(self, node: Node, var: Var) -> None:
        self._declare_type(var, node.named_children[-1])

    def _hold(self, var: Var, holder: Var) -> None:
        self.summary.annotations.append((var, -holder))

    def _container(self, kind: str, elements: list[Element]) -> Var:
        var = self.new_var()
        self.summary.containers.append((var, kind, tuple(elements)))
        return var

    # --- functions

    def _function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is None:
            return
        shown = self.text(name)
        definition = self.define("function", shown, node, self._signature(node, shown))
        value = self._body(node, definition, [])
        if shown not in {"init", "_"}:
            self.module.assign(shown, value)

    def _method(self, node: Node) -> None:
        name, receiver = node.child_by_field_name("name"), node.child_by_field_name("receiver")
        if name is None or receiver is None:
            return
        declared = next(
            (child for child in receiver.named_children if child.type == "parameter_declaration"),
            None,
        )
        kind = declared.child_by_field_name("type") if declared is not None else None
        if declared is None or kind is None:
            return
        shown = self.text(name)
        owner = self.text(kind).lstrip("*").partition("[")[0]
        self.summary.definitions.append(
            DefinitionSummary(
                "method",
                shown,
                f"{owner}.{shown}",
                node.start_point.row + 1,
                node.end_point.row + 1,
                self._signature(node, shown),
                self._types.get(owner, 0),
            )
        )
        definition = len(self.summary.definitions) - 1
        value = self._body(node, definition, [declared])
        self.store(self._type(kind), shown, value, node)

    def _signature(self, node: Node, name: str) -> str:
        parameters = node.child_by_field_name("parameters")
        result = node.child_by_field_name("result")
        shown = self.text(parameters) if parameters is not None else "()"
        returned = f" {self.text(result)}" if result is not None else ""
        return self.signature(f"{name}{shown}{returned}")

    def _body(self, node: Node, definition: int, receivers: list[Node]) -> Var:
        outer = self.enter("function", definition, definition)
        self.variables.append({})
        positional: list[tuple[str, Var]] = []
        rest = 0
        parameters = node.child_by_field_name("parameters")
        listed = parameters.named_children if parameters is not None else []
        for declaration in [*receivers, *listed]:
            kind = declaration.child_by_field_name("type")
            names = [self.text(name) for name in declaration.children_by_field_name("name")]
            for name in names or ["_"]:
                var = self.new_var()
                self.declare_local(name, var)
                if declaration.type == "variadic_parameter_declaration":
                    rest = var
                    continue
                self._declare_type(var, kind)
                positional.append((name, var))
        result = self.new_var()
        self._declare_result(result, node.child_by_field_name("result"))
        self._results.append((result, 0))
        body = node.child_by_field_name("body")
        if body is not None and self.has_effect(body):
            self._all(body)
        self._results.pop()
        self.variables.pop()
        self.scope = outer
        return self.add_function(definition, positional, rest, result, -1)

    def _declare_result(self, result: Var, node: Node | None) -> None:
        if node is None:
            return
        if node.type != "parameter_list":
            self._declare_type(result, node)
            return
        elements: list[Element] = []
        for declaration in node.named_children:
            var = self.new_var()
            self._declare_type(var, declaration.child_by_field_name("type") or declaration)
            elements.append((len(elements), 0, var))
        self._hold(result, self._container("tuple", elements))

    def _literal(self, node: Node) -> Var:
        self.scope.lambdas += 1
        definition = self.define("function", f"<lambda{self.scope.lambdas}>", node, None)
        return self._body(node, definition, [])

    # --- variables

    def _name(self, name: str) -> Var:
        found = self.local(name)
        return self.by_name(name) if found is None else found

    def _top_variables(self, node: Node) -> None:
        waiting = list(node.named_children)
        while waiting:
            spec = waiting.pop(0)
            if spec.type == "var_spec_list":
                waiting.extend(spec.named_children)
            elif spec.type == "var_spec":
                names = [self.text(name) for name in spec.children_by_field_name("name")]
                for name, var in zip(names, self._values(spec, len(names)), strict=True):
                    self.module.assign(name, var)

    def _variables(self, node: Node) -> Var:
        names = [self.text(name) for name in node.children_by_field_name("name")]
        for name, var in zip(names, self._values(node, len(names)), strict=True):
            self.declare_local(name, var)
        return 0

    def _values(self, node: Node, count: int) -> list[Var]:
        kind, value = node.child_by_field_name("type"), node.child_by_field_name("value")
        values = self._spread(value, count) if value is not None else [0] * count
        operands = []
        for one in values:
            var = self.new_var()
            self.copy(one, var)
            self._declare_type(var, kind)
            if value is None and kind is not None and kind.type != "pointer_type":
                self.summary.instances.append((var, self._type(kind) or self.new_var()))
            operands.append(var)
        return operands

    def _spread(self, node: Node, count: int) -> list[Var]:
        """Return the values of a list of expressions, or the results of a single call."""
        listed = node.named_children if node.type == "expression_list" else [node]
        operands = [self.expression(child) for child in listed if child.type != "comment"]
        if len(operands) == count:
            return operands
        if len(operands) != 1 or not operands[0]:
            return [0] * count
        elements = []
        for index in range(count):
            element = self.new_var()
            line, caller = node.start_point.row + 1, self.scope.caller
            self.summary.items.append((element, operands[0], index, -3, caller, line))
            elements.append(element)
        return elements

    def _assignment(self, node: Node) -> Var:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return 0
        targets = left.named_children if left.type == "expression_list" else [left]
        values = self._spread(right, len(targets))
        is_new = node.type == "short_var_declaration"
        for target, value in zip(targets, values, strict=True):
            self._assign(target, value, is_new=is_new)
        return 0

    def _assign(self, target: Node, value: Var, *, is_new: bool) -> None:
        if target.type == "identifier":
            name = self.text(target)
            found = self.variables[-1].get(name) if is_new else self.local(name)
            if found is None and is_new:
                found = self.new_var()
                self.declare_local(name, found)
            if found is None:
                self.module.assigned.setdefault(name, []).append(value)
            else:
                self.copy(value, found)
        elif target.type == "selector_expression":
            operand = target.child_by_field_name("operand")
            field = target.child_by_field_name("field")
            if operand is not None and field is not None:
                self.store(self.expression(operand), self.text(field), value, target)
        elif target.type == "index_expression":
            operand, index = target.named_children[0], target.named_children[-1]
            base, key = self.expression(operand), self.expression(index)
            if base and value:
                line, caller = target.start_point.row + 1, self.scope.caller
                written = self._written(index)
                self.summary.item_stores.append((base, written, key, value, caller, line))

    # --- expressions

    def expression(self, node: Node) -> Var:
        """Read an expression or a statement."""
        self.depth += 1
        try:
            if self.too_deep(node):
                return 0
            if node.type in _CHAINS:
                return self._chain(node)
            reader = self._readers.get(node.type)
            return reader(node) if reader is not None else self._all(node)
        finally:
            self.depth -= 1

    def _all(self, node: Node) -> Var:
        for child in node.named_children:
            self.expression(child)
        return 0

    def _block(self, node: Node) -> Var:
        self.variables.append({})
        self._all(node)
        self.variables.pop()
        return 0

    def _inner(self, node: Node) -> Var:
        return self.expression(node.named_children[-1]) if node.named_children else 0

    def _chain(self, node: Node) -> Var:
        links = []
        inner: Node | None = node
        while inner is not None and inner.type in _CHAINS:
            links.append(inner)
            inner = inner.child_by_field_name(_CHAINS[inner.type])
        var = self.expression(inner) if inner is not None else 0
        for link in reversed(links):
            if link.type == "selector_expression":
                field = link.child_by_field_name("field")
                var = self.load(var, self.text(field), link) if field is not None else 0
                continue
            var = self._call(link, var)
        return var

    def _call(self, node: Node, callee: Var) -> Var:
        function = node.child_by_field_name("function")
        arguments = node.child_by_field_name("arguments")
        listed = [
            child
            for child in (arguments.named_children if arguments is not None else [])
            if child.type != "comment"
        ]
        name = self.text(function) if function is not None else ""
        if name in {"new", "make"} and self.local(name) is None and listed:
            self.call(callee, [], node)
            return self._made(listed[0])
        operands = [
            -(self.expression(child.named_children[0]) or self.new_var())
            if child.type == "variadic_argument"
            else self.expression(child)
            for child in listed
        ]
        result = self.call(callee, operands, node)
        if name == "append" and operands and operands[0] > 0:
            line, caller = node.start_point.row + 1, self.scope.caller
            holder = self._container("list", [])
            target = self.new_var()
            self.copy(operands[0], target)
            self.copy(holder, target)
            for var in operands[1:]:
                if var > 0:
                    self.summary.item_stores.append((target, None, 0, var, caller, line))
            return target
        return result

    def _made(self, node: Node) -> Var:
        if node.type in {"map_type", "slice_type", "channel_type"}:
            return self._container("dict" if node.type == "map_type" else "list", [])
        return self.instance(self._type(node))

    def _composite(self, node: Node) -> Var:
        kind, body = node.child_by_field_name("type"), node.child_by_field_name("body")
        if kind is None or body is None:
            return self._all(node)
        return self._composite_literal(kind, body)

    @depth_limited(0)
    def _composite_literal(self, kind: Node, body: Node) -> Var:
        """Create the value of a composite literal: a container, or a struct with its fields."""
        if kind.type in {"slice_type", "array_type", "map_type", "implicit_length_array_type"}:
            element_kind = kind.named_children[-1]
            elements: list[Element] = []
            for index, child in enumerate(body.named_children):
                key, value = self._element(child, element_kind)
                if kind.type == "map_type":
                    written = self._written(key) if key is not None else None
                    var = self.expression(key) if key is not None and written is None else 0
                    elements.append((written, var, value))
                else:
                    elements.append((index, 0, value))
            return self._container("dict" if kind.type == "map_type" else "list", elements)
        made = self.instance(self._type(kind) or self.new_var())
        for child in body.named_children:
            key, value = self._element(child, None)
            if key is not None:
                self.store(made, self.text(key), value, child)
        return made

    def _element(self, node: Node, kind: Node | None) -> tuple[Node | None, Var]:
        key: Node | None = None
        value = node
        if node.type == "keyed_element" and len(node.named_children) == 2:
            key, value = node.named_children
            if key.type == "literal_element" and key.named_children:
                key = key.named_children[0]
        if value.type == "literal_element" and value.named_children:
            value = value.named_children[0]
        if value.type == "literal_value" and kind is not None:
            inner = kind.named_children[0] if kind.type == "pointer_type" else kind
            return key, self._composite_literal(inner, value)
        return key, self.expression(value)

    def _written(self, node: Node) -> int | str | None:
        text = self.text(node)
        if node.type == "interpreted_string_literal":
            return text[1:-1]
        return int(text) if node.type == "int_literal" and text.isdigit() else None

    def _index(self, node: Node) -> Var:
        base, key = self.expression(node.named_children[0]), node.named_children[-1]
        var = self.expression(key)
        if not base:
            return 0
        result = self.new_var()
        line, caller = node.start_point.row + 1, self.scope.caller
        self.summary.items.append((result, base, self._written(key), var, caller, line))
        return result

    def _assertion(self, node: Node) -> Var:
        self.expression(node.named_children[0])
        return self.instance(self._type(node.child_by_field_name("type")) or self.new_var())

    def _return(self, node: Node) -> Var:
        operands: list[Var] = []
        for child in node.named_children:
            listed = child.named_children if child.type == "expression_list" else [child]
            operands.extend(self.expression(one) for one in listed if one.type != "comment")
        if self._results and len(operands) == 1:
            self.copy(operands[0], self._results[-1][0])
        elif self._results and operands:
            elements: list[Element] = [(index, 0, var) for index, var in enumerate(operands)]
            self.copy(self._container("tuple", elements), self._results[-1][0])
        return 0

    def _range(self, node: Node) -> Var:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        value = self.expression(right) if right is not None else 0
        if left is None:
            return 0
        targets = left.named_children
        for index, target in enumerate(targets):
            element = self.new_var() if value and index == 1 else 0
            if element:
                line, caller = node.start_point.row + 1, self.scope.caller
                self.summary.items.append((element, value, None, 0, caller, line))
            self._assign(target, element, is_new=True)
        return 0


def _last(path: str, separator: str = "/") -> str:
    parts = path.split(separator)
    is_version = len(parts) > 1 and parts[-1][:1] == "v" and parts[-1][1:].isdigit()
    return parts[-2] if is_version else parts[-1]
