"""Reads Java."""

from __future__ import annotations

import re
from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.packages.reader import PackageReader
from coatcheck.codegraph.python.names import depth_limited
from coatcheck.codegraph.summary import Class, Var

_TYPES = {
    "class_declaration", "interface_declaration", "enum_declaration", "record_declaration",
    "annotation_type_declaration",
}  # fmt: skip
_METHODS = {"method_declaration", "constructor_declaration", "compact_constructor_declaration"}
_CHAINS = {"method_invocation": "object", "field_access": "object"}
# The decorator of a static method, which the linker resolves.
STATIC = "%classmethod"


class _EnclosingClass:
    """A class that is being read, and the names of its members."""

    def __init__(self, var: Var, index: int) -> None:
        self.var = var
        self.index = index
        self.methods: set[str] = set()
        self.fields: set[str] = set()
        self.types: dict[str, Var] = {}
        self.this: Var = 0  # in static code, the class itself


class JavaReader(PackageReader):
    """Reads a Java file."""

    relevant = re.compile(rb"->|\b(?:class|interface|enum|record)\b|\bnew\b[^;{}]*\{")

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._classes: list[_EnclosingClass] = []
        self._anonymous = 0
        self._results: list[Var] = []  # of the functions being read
        self._readers: dict[str, Callable[[Node], Var]] = {
            "identifier": lambda node: self._name(self.text(node), node),
            "type_identifier": lambda node: self._type_name(self.text(node)),
            "this": lambda _: self._classes[-1].this if self._classes else 0,
            "object_creation_expression": self._new,
            "assignment_expression": self._assignment,
            "lambda_expression": self._lambda,
            "method_reference": self._method_reference,
            "cast_expression": self._cast,
            "ternary_expression": self._ternary,
            "parenthesized_expression": self._inner,
            "binary_expression": self.read_operands,
            "local_variable_declaration": self._local_variables,
            "enhanced_for_statement": self._for_each,
            "explicit_constructor_invocation": self._other_constructor,
            "catch_clause": self._catch,
            "resource": self._resource,
            "instanceof_expression": self._instance_of,
            "block": self._block,
            "string_literal": lambda _: self.by_name("String%"),
        }
        for kind in _TYPES:
            self._readers[kind] = self._type_declaration

    def read_file(self, root: Node) -> None:
        """Read the declarations of a file."""
        for child in root.named_children:
            line = child.start_point.row + 1
            if child.type == "package_declaration":
                self.summary.package = self.text(child.named_children[-1])
            elif child.type == "import_declaration":
                self._import(child, line)
            elif child.type in _TYPES:
                name = child.child_by_field_name("name")
                if name is not None:
                    self.module.assign(self.text(name), self._type_declaration(child))

    def _import(self, node: Node, line: int) -> None:
        path = self.text(node.named_children[0])
        if any(child.type == "asterisk" for child in node.named_children):
            self.summary.stars.append((0, path, line))
            return
        package, _, name = path.rpartition(".")
        var = self.new_var()
        self.summary.imports.append((var, 0, package, name, 0, line))
        self.module.assign(name, var)

    # --- types

    def _type_name(self, name: str) -> Var:
        for enclosing in reversed(self._classes):
            if name in enclosing.types:
                return enclosing.types[name]
        return self.by_name(name)

    def _type(self, node: Node | None) -> Var:
        """Return the variable of the class that a type names, or 0 for a primitive type."""
        while node is not None and node.type in {"generic_type", "annotated_type"}:
            node = node.named_children[0] if node.named_children else None
        if node is None:
            return 0
        if node.type == "type_identifier":
            name = self.text(node)
            return 0 if name == "var" else self._type_name(name)
        if node.type == "scoped_type_identifier":
            first, *others = self.text(node).split(".")
            var = self._type_name(first)
            for other in others:
                var = self.load(var, other.partition("<")[0], node)
            return var
        return 0

    @depth_limited(0)
    def _type_declaration(self, node: Node) -> Var:
        name = node.child_by_field_name("name")
        body = node.child_by_field_name("body")
        return self._class(node, self.text(name) if name is not None else "?", body, None)

    def _class(self, node: Node, name: str, body: Node | None, base: Var | None) -> Var:
        bases = [base] if base else []
        shown = []
        for child in node.named_children:
            if child.type in {"superclass", "super_interfaces", "extends_interfaces"}:
                for one in self._listed_types(child):
                    bases.append(self._type(one))
                    shown.append(self.text(one).partition("<")[0])
        extends = f" extends {', '.join(shown)}" if shown else ""
        definition = self.define("class", name, node, self.signature(name + extends))
        index = len(self.summary.classes)
        self.summary.classes.append(Class(definition, (), 0, (), ()))
        var = self._classes[-1].types.get(name) if self._classes else None
        var = var or self.new_var()
        self.summary.class_values.append((var, index))
        enclosing = _EnclosingClass(var, index)
        enclosing.this = self.instance(var)
        enclosing.types[name] = var
        outer = self.enter("class", definition, self.scope.caller)
        self.scope.owner = index
        self._classes.append(enclosing)
        members = self._members(body)
        for member in members:
            self._declare_member(member, enclosing)
        attributes: dict[str, Var] = dict(enclosing.types)
        attributes.pop(name, None)
        self._components(node, enclosing)
        for member in members:
            self._member(member, enclosing, attributes)
        self._classes.pop()
        self.scope = outer
        found = Class(
            definition, tuple(one for one in bases if one), 0, tuple(attributes.items()), ()
        )
        self.summary.classes[index] = found
        return var

    @staticmethod
    def _listed_types(node: Node) -> list[Node]:
        listed = []
        for child in node.named_children:
            listed.extend(child.named_children if child.type == "type_list" else [child])
        return listed

    @staticmethod
    def _members(body: Node | None) -> list[Node]:
        members = []
        for child in body.named_children if body is not None else ():
            inner = child.type == "enum_body_declarations"
            members.extend(child.named_children if inner else [child])
        return members

    def _declare_member(self, member: Node, enclosing: _EnclosingClass) -> None:
        """Declare a member's name: members see each other in any order."""
        name = member.child_by_field_name("name")
        if member.type == "method_declaration" and name is not None:
            enclosing.methods.add(self.text(name))
        elif member.type in {"field_declaration", "constant_declaration"}:
            for declarator in member.children_by_field_name("declarator"):
                field = declarator.child_by_field_name("name")
                if field is not None:
                    enclosing.fields.add(self.text(field))
        elif member.type == "enum_constant" and name is not None:
            enclosing.fields.add(self.text(name))
        elif member.type in _TYPES and name is not None:
            enclosing.types[self.text(name)] = self.new_var()

    def _components(self, node: Node, enclosing: _EnclosingClass) -> None:
        """Read the components of a record: fields, and methods of the same name."""
        parameters = node.child_by_field_name("parameters")
        for child in parameters.named_children if parameters is not None else ():
            name = child.child_by_field_name("name")
            if name is not None:
                enclosing.fields.add(self.text(name))
                value = self.new_var()
                self.annotate(value, self._type(child.child_by_field_name("type")))
                self.store(enclosing.this, self.text(name), value, child)

    def _member(self, member: Node, enclosing: _EnclosingClass, attributes: dict[str, Var]) -> None:
        kind = member.type
        if kind in _METHODS:
            self._method(member, enclosing, attributes)
        elif kind in _TYPES:
            self._type_declaration(member)
        elif not self.has_effect(member):
            return
        elif kind in {"field_declaration", "constant_declaration"}:
            self._fields(member, enclosing)
        elif kind in {"static_initializer", "block"}:
            self._expression_all(member)
        elif kind == "enum_constant":
            name = member.child_by_field_name("name")
            arguments = member.child_by_field_name("arguments")
            self.call(enclosing.var, self._arguments(arguments), member)
            if name is not None:
                self.store(enclosing.var, self.text(name), enclosing.this, member)

    def _is_static(self, member: Node) -> bool:
        return any(
            child.type == "modifiers" and any(word.type == "static" for word in child.children)
            for child in member.children
        )

    def _fields(self, member: Node, enclosing: _EnclosingClass) -> None:
        cls = self._type(member.child_by_field_name("type"))
        target = enclosing.var if self._is_static(member) else enclosing.this
        for declarator in member.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("name")
            value = declarator.child_by_field_name("value")
            if name is None:
                continue
            var = self.new_var()
            self.annotate(var, cls)
            if value is not None:
                self.copy(self.expression(value), var)
            self.store(target, self.text(name), var, declarator)

    def _method(self, member: Node, enclosing: _EnclosingClass, attributes: dict[str, Var]) -> None:
        written = member.child_by_field_name("name")
        if written is None:
            return
        name = self.text(written)
        is_constructor = member.type != "method_declaration"
        parameters = member.child_by_field_name("parameters")
        returned = member.child_by_field_name("type")
        shown = self.text(parameters) if parameters is not None else "()"
        result_shown = f": {self.text(returned)}" if returned is not None else ""
        definition = self.define(
            "method", name, member, self.signature(f"{name}{shown}{result_shown}")
        )
        body = member.child_by_field_name("body")
        is_read = body is not None and self.has_effect(body)
        if not is_read and not self.with_calls:
            return
        this = self.new_var()
        result = self.new_var()
        self.annotate(result, self._type(returned))
        outer = self.enter("function", definition, definition)
        self.scope.owner = enclosing.index
        self.variables.append({})
        positional, rest = self._parameters(parameters)
        before, enclosing.this = enclosing.this, this
        self._results.append(result)
        if body is not None and is_read:
            self._expression_all(body)
        self._results.pop()
        enclosing.this = before
        self.variables.pop()
        self.scope = outer
        positional.insert(0, ("this", this))
        value = self.add_function(definition, positional, rest, result, enclosing.index)
        if self._is_static(member):
            made = self.new_var()
            line = member.start_point.row + 1
            decorator = self.by_name(STATIC)
            self.summary.decorations.append((made, decorator, value, self.scope.caller, line))
            value = made
        key = "__init__" if is_constructor else name
        # Overloads are one attribute; a call selects them by the number of arguments.
        if key in attributes:
            self.copy(value, attributes[key])
        else:
            attributes[key] = joined = self.new_var()
            self.copy(value, joined)

    def _parameters(self, node: Node | None) -> tuple[list[tuple[str, Var]], Var]:
        positional: list[tuple[str, Var]] = []
        rest = 0
        for child in node.named_children if node is not None else ():
            var = self.new_var()
            if child.type == "formal_parameter":
                name = child.child_by_field_name("name")
                if name is None:
                    continue
                self.annotate(var, self._type(child.child_by_field_name("type")))
                self.declare_local(self.text(name), var)
                positional.append((self.text(name), var))
            elif child.type == "spread_parameter":
                rest = var
                self.declare_local(self.text(child.named_children[-1]), var)
        return positional, rest

    # --- names

    def _name(self, name: str, node: Node) -> Var:
        found = self.local(name)
        if found is not None:
            return found
        for enclosing in reversed(self._classes):
            if name in enclosing.fields:
                return self.load(enclosing.this, name, node)
            if name in enclosing.types:
                return enclosing.types[name]
        if name[:1].isupper():
            return self.by_name(name)
        # Neither here nor in an enclosing class: inherited.
        return self.load(self._classes[-1].this, name, node) if self._classes else 0

    def _own_method(self, name: str, node: Node) -> Var:
        for enclosing in reversed(self._classes):
            if name in enclosing.methods:
                return self.load(enclosing.this, name, node)
        if name in self.module.assigned:
            return self.by_name(name)  # import static
        return self.load(self._classes[-1].this, name, node) if self._classes else 0

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
            if reader is not None:
                return reader(node)
            if node.type == "return_statement":
                for child in node.named_children:
                    self.copy(self.expression(child), self._results[-1] if self._results else 0)
                return 0
            return self._expression_all(node)
        finally:
            self.depth -= 1

    def _expression_all(self, node: Node) -> Var:
        for child in node.named_children:
            self.expression(child)
        return 0

    def _inner(self, node: Node) -> Var:
        return self.expression(node.named_children[0]) if node.named_children else 0

    def _block(self, node: Node) -> Var:
        self.variables.append({})
        self._expression_all(node)
        self.variables.pop()
        return 0

    def _chain(self, node: Node) -> Var:
        links = []
        inner: Node | None = node
        while inner is not None and inner.type in _CHAINS:
            links.append(inner)
            inner = inner.child_by_field_name("object")
        var = 0
        if inner is not None:
            var = self._super(inner) if inner.type == "super" else self.expression(inner)
        for depth, link in enumerate(reversed(links)):
            is_first = depth == 0 and inner is None
            name = link.child_by_field_name("name") or link.child_by_field_name("field")
            if name is None:
                continue
            if link.type == "field_access":
                var = self.load(var, self.text(name), link)
                continue
            if is_first:
                callee = self._own_method(self.text(name), link)
            else:
                callee = self.load(var, self.text(name), link)
            arguments = self._arguments(link.child_by_field_name("arguments"))
            var = self.call(callee, arguments, name)
        return var

    def _arguments(self, node: Node | None) -> list[Var]:
        if node is None:
            return []
        return [
            self.expression(child)
            for child in node.named_children
            if child.type not in {"line_comment", "block_comment"}
        ]

    def _super(self, _: Node) -> Var:
        result = self.new_var()
        current = self._classes[-1]
        self.summary.supers.append((result, current.index, current.this))
        return result

    def _other_constructor(self, node: Node) -> Var:
        which = node.child_by_field_name("constructor")
        arguments = self._arguments(node.child_by_field_name("arguments"))
        if which is None or not self._classes:
            return 0
        base = self._super(which) if which.type == "super" else self._classes[-1].this
        return self.call(self.load(base, "__init__", node), arguments, node)

    def _new(self, node: Node) -> Var:
        cls = self._type(node.child_by_field_name("type"))
        arguments = self._arguments(node.child_by_field_name("arguments"))
        body = next((child for child in node.named_children if child.type == "class_body"), None)
        if body is not None:
            self._anonymous += 1
            cls = self._class(node, f"<class{self._anonymous}>", body, cls)
            return self.instance(cls)
        self.call(cls, arguments, node)
        return self.instance(cls) if cls else 0

    def _assignment(self, node: Node) -> Var:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return 0
        value = self.expression(right)
        if left.type == "identifier":
            name = self.text(left)
            found = self.local(name)
            if found is not None:
                self.copy(value, found)
            elif self._classes:
                self.store(self._classes[-1].this, name, value, left)
        elif left.type == "field_access":
            base, field = left.child_by_field_name("object"), left.child_by_field_name("field")
            if base is not None and field is not None:
                self.store(self.expression(base), self.text(field), value, left)
        else:
            self.expression(left)
        return value

    def _lambda(self, node: Node) -> Var:
        self.scope.lambdas += 1
        definition = self.define("function", f"<lambda{self.scope.lambdas}>", node, None)
        outer = self.enter("function", definition, definition)
        self.scope.owner = outer.owner
        self.variables.append({})
        parameters = node.child_by_field_name("parameters")
        positional: list[tuple[str, Var]] = []
        if parameters is not None and parameters.type == "formal_parameters":
            positional, _ = self._parameters(parameters)
        elif parameters is not None:
            names = parameters.named_children or [parameters]
            for name in names:
                var = self.new_var()
                self.declare_local(self.text(name), var)
                positional.append((self.text(name), var))
        result = self.new_var()
        body = node.child_by_field_name("body")
        self._results.append(result)
        if body is not None and body.type == "block":
            self._expression_all(body)
        elif body is not None:
            self.copy(self.expression(body), result)
        self._results.pop()
        self.variables.pop()
        self.scope = outer
        return self.add_function(definition, positional, 0, result, -1)

    def _method_reference(self, node: Node) -> Var:
        parts = node.named_children
        if len(parts) != 2:
            return 0
        base = self._super(parts[0]) if parts[0].type == "super" else self.expression(parts[0])
        return self.load(base, self.text(parts[1]), node)

    def _cast(self, node: Node) -> Var:
        value = node.child_by_field_name("value")
        var = self.new_var()
        if value is not None:
            self.copy(self.expression(value), var)
        self.annotate(var, self._type(node.child_by_field_name("type")))
        return var

    def _ternary(self, node: Node) -> Var:
        parts = [node.child_by_field_name(name) for name in ("consequence", "alternative")]
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.expression(condition)
        return self.join([self.expression(part) for part in parts if part is not None])

    def _local_variables(self, node: Node) -> Var:
        cls = self._type(node.child_by_field_name("type"))
        for declarator in node.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("name")
            value = declarator.child_by_field_name("value")
            if name is None:
                continue
            var = self.new_var()
            if value is not None:
                self.copy(self.expression(value), var)
            self.annotate(var, cls)
            self.declare_local(self.text(name), var)
        return 0

    def _declared(self, node: Node, value: Var) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            var = self.new_var()
            self.copy(value, var)
            self.annotate(var, self._type(node.child_by_field_name("type")))
            self.declare_local(self.text(name), var)

    def _for_each(self, node: Node) -> Var:
        value = node.child_by_field_name("value")
        if value is not None:
            self.expression(value)
        self._declared(node, 0)
        body = node.child_by_field_name("body")
        return self.expression(body) if body is not None else 0

    def _resource(self, node: Node) -> Var:
        value = node.child_by_field_name("value")
        self._declared(node, self.expression(value) if value is not None else 0)
        return 0

    def _instance_of(self, node: Node) -> Var:
        left, name = node.child_by_field_name("left"), node.child_by_field_name("name")
        if left is not None:
            self.expression(left)
        if name is not None:
            var = self.instance(self._type(node.child_by_field_name("right")))
            self.declare_local(self.text(name), var)
        return 0

    def _catch(self, node: Node) -> Var:
        self.variables.append({})
        for child in node.named_children:
            if child.type == "catch_formal_parameter":
                name = child.child_by_field_name("name")
                var = self.new_var()
                for part in child.named_children:
                    if part.type == "catch_type":
                        for one in part.named_children:
                            self.summary.instances.append((var, self._type(one)))
                if name is not None:
                    self.declare_local(self.text(name), var)
            else:
                self.expression(child)
        self.variables.pop()
        return 0
