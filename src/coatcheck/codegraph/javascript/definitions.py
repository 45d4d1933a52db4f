"""Reads functions and classes of JavaScript and TypeScript."""

from __future__ import annotations

import re
from abc import abstractmethod

from tree_sitter import Node

from coatcheck.codegraph.javascript.expressions import (
    CLASS_METHOD,
    PROPERTY,
    JavaScriptExpressions,
)
from coatcheck.codegraph.python.names import MAX_SIGNATURE, depth_limited
from coatcheck.codegraph.python.scopes import NameScope
from coatcheck.codegraph.summary import Class, Function, Var

_SPACE = re.compile(r"\s+")
_ARRAYS = {"Array", "ReadonlyArray", "Set", "Iterable", "Promise"}
_ACCESS = {"accessibility_modifier", "readonly", "override_modifier"}


class JavaScriptDefinitions(JavaScriptExpressions):
    """Reads definitions."""

    # The last alternative is a method of an object literal, as opposed to `if (...) {`.
    relevant = re.compile(
        rb"=>|\b(?:class|function|import|require|exports?|module)\b"
        rb"|\b(?!(?:if|for|while|switch|catch|with)\b)[\w$]+\s*\([^{}]*\)\s*[{:]"
    )

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        # Destructured parameters, which are bound when the body is read: (pattern, variable).
        self._patterns: dict[int, list[tuple[Node, Var]]] = {}

    @abstractmethod
    def block(self, node: Node) -> None:
        """Read statements (statements.py)."""

    # --- functions

    def function(self, node: Node) -> Var:
        """Read a function; queue its body."""
        scope = self.scope
        written = node.child_by_field_name("name")
        name = self.pending_name
        self.pending_name = None
        if written is not None:
            name = self.property_name(written)
        if name is None:
            scope.lambdas += 1
            name = f"<lambda{scope.lambdas}>"
        kind = "method" if scope.kind == "class" else "function"
        definition = self.define(kind, name, node, self._signature(node, name))
        inner = NameScope("function", scope, definition, definition)
        inner.owner = scope.owner
        inner.function = len(self.summary.functions)
        takes_this = scope.kind == "class" and node.type == "method_definition"
        is_arrow = node.type == "arrow_function"
        this = 0
        if not is_arrow:
            this = self.new_var()
            inner.assigned["this"] = [this]
            inner.bind("this", this)
            if not takes_this and self.object_var:
                self.copy(self.object_var, this)
        inner.first_parameter = this or scope.first_parameter
        result = self.new_var()
        self.annotate(node.child_by_field_name("return_type"), result)
        positional, rest, defaults, stored_parameters = self._parameters(node, inner, this)
        if takes_this:
            positional.insert(0, ("this", this))
        self.summary.functions.append(
            Function(
                definition,
                tuple(positional),
                rest,
                (),
                0,
                tuple(defaults),
                result,
                (),
                tuple(stored_parameters),
                self.new_var() if self._is_generator(node) else 0,
                any(child.type == "async" for child in node.children),
                scope.owner if takes_this else -1,
            )
        )
        self.scopes.append(inner)
        self.waiting.append((node, inner))
        var = self.new_var()
        self.summary.function_values.append((var, inner.function))
        return var

    @staticmethod
    def _is_generator(node: Node) -> bool:
        return node.type.startswith("generator") or any(c.type == "*" for c in node.children)

    def _parameters(
        self, node: Node, inner: NameScope, this: Var
    ) -> tuple[list[tuple[str, Var]], Var, list[tuple[str, Var]], list[tuple[str, str]]]:
        positional: list[tuple[str, Var]] = []
        defaults: list[tuple[str, Var]] = []
        stored_parameters: list[tuple[str, str]] = []
        rest = 0
        for index, child in enumerate(self._written_parameters(node)):
            pattern = child.child_by_field_name("pattern") or child
            default = child.child_by_field_name("value")
            if child.type == "assignment_pattern":
                pattern = child.child_by_field_name("left") or child
                default = child.child_by_field_name("right")
            var = self.new_var()
            if pattern.type == "rest_pattern" and pattern.named_children:
                rest = var
                self._bind_parameter(pattern.named_children[0], var, inner)
                continue
            name = self.text(pattern) if pattern.type == "identifier" else f"{{{index}}}"
            if name == "this":
                continue
            self._bind_parameter(pattern, var, inner)
            self.annotate(child.child_by_field_name("type"), var)
            positional.append((name, var))
            if default is not None:
                defaults.append((name, self.expression(default)))
            if this and any(part.type in _ACCESS for part in child.children):
                stored_parameters.append((name, name))  # constructor(private name: Type)
        return positional, rest, defaults, stored_parameters

    def _written_parameters(self, node: Node) -> list[Node]:
        parameters = node.child_by_field_name("parameters")
        if parameters is None:
            alone = node.child_by_field_name("parameter")
            return [alone] if alone is not None else []
        return [child for child in parameters.named_children if child.type != "comment"]

    def _bind_parameter(self, pattern: Node, var: Var, inner: NameScope) -> None:
        if pattern.type == "identifier":
            inner.assigned[self.text(pattern)] = [var]
            inner.bind(self.text(pattern), var)
        else:
            self._patterns.setdefault(inner.function, []).append((pattern, var))

    def read_bodies(self) -> None:
        """Read the queued bodies, which may queue others."""
        while self.waiting:
            node, scope = self.waiting.popleft()
            self.scope = scope
            self.depth = 0
            for pattern, var in self._patterns.pop(scope.function, ()):
                self.declare(pattern, var)
            body = node.child_by_field_name("body")
            if body is not None and self.has_effect(body):
                if body.type == "statement_block":
                    self.block(body)
                else:
                    self.add_return(self.expression(body))
            self.resolve_pending(scope)

    @abstractmethod
    def declare(self, pattern: Node, value: Var) -> None:
        """Declare the variables of a pattern (statements.py)."""

    def add_return(self, var: Var) -> None:
        """Record a return value of the current function."""
        if not var or self.scope.function < 0:
            return
        function = self.summary.functions[self.scope.function]
        for index, (_, parameter) in enumerate(function.positional):
            if parameter == var:
                returned_parameters = (*function.returned_parameters, index)
                self.summary.functions[self.scope.function] = function._replace(
                    returned_parameters=returned_parameters
                )
                return
        self.copy(var, function.result)

    def generator_values(self) -> Var:
        """Return the variable of the values that the current function yields."""
        if self.scope.function < 0:
            return 0
        return self.summary.functions[self.scope.function].yields

    def _signature(self, node: Node, name: str) -> str:
        """Return the signature: names and types as written, without default values."""
        parts = []
        for child in self._written_parameters(node):
            pattern = child.child_by_field_name("pattern") or child
            if child.type == "assignment_pattern":
                pattern = child.child_by_field_name("left") or child
            annotation = child.child_by_field_name("type")
            shown = self.text(annotation) if annotation is not None else ""
            is_plain = pattern.type in {"identifier", "rest_pattern"}
            parts.append((self.text(pattern) if is_plain else "{}") + shown)
        returns = node.child_by_field_name("return_type")
        result = self.text(returns) if returns is not None else ""
        return _SPACE.sub(" ", f"{name}({', '.join(parts)}){result}")[:MAX_SIGNATURE]

    # --- types

    def annotate(self, annotation: Node | None, var: Var) -> None:  # noqa: C901
        """Record a variable's type, a fallback for an empty variable."""
        if annotation is None or not var:
            return
        waiting = [annotation]
        while waiting:
            node = waiting.pop()
            if node.type in {"type_annotation", "union_type", "parenthesized_type"}:
                waiting.extend(node.named_children)
            elif node.type == "type_identifier":
                self.summary.annotations.append((var, self.read_name(self.text(node))))
            elif node.type == "nested_type_identifier":
                first, *others = self.text(node).split(".")
                loaded = self.read_name(first)
                for other in others:
                    loaded = self.load(loaded, other, node)
                self.summary.annotations.append((var, loaded))
            elif node.type == "array_type":
                self._annotate_elements(node, var)
            elif node.type == "generic_type":
                name = node.child_by_field_name("name")
                arguments = node.child_by_field_name("type_arguments")
                if name is None or arguments is None:
                    continue
                if self.text(name) == "Promise":
                    waiting.extend(arguments.named_children)
                elif self.text(name) in _ARRAYS:
                    self._annotate_elements(arguments, var)
                else:
                    waiting.append(name)

    @depth_limited(None)
    def _annotate_elements(self, node: Node, var: Var) -> None:
        """Record the type argument as the type of a variable's elements."""
        element = self.new_var()
        for one in node.named_children[:1]:
            self.annotate(one, element)
        holder = self.container("list", [(None, 0, element)])
        self.summary.annotations.append((var, -holder))

    # --- classes

    def class_(self, node: Node) -> Var:
        """Read a class; fields are set on each instance."""
        written = node.child_by_field_name("name")
        name = self.text(written) if written is not None else self.pending_name
        self.pending_name = None
        outer = self.scope
        if name is None:
            outer.lambdas += 1
            name = f"<class{outer.lambdas}>"
        bases, shown = self._bases(node)
        definition = self.define("class", name, node, f"{name}{shown}"[:MAX_SIGNATURE])
        inner = NameScope("class", outer, definition, outer.caller)
        inner.owner = index = len(self.summary.classes)
        self.scopes.append(inner)
        self.summary.classes.append(Class(definition, (), 0, (), ()))
        var = self.new_var()
        self.summary.class_values.append((var, index))
        this = self.new_var()
        self.summary.instances.append((this, var))
        inner.bind("this", this)
        inner.captured["this"] = this
        inner.first_parameter = this
        self.scope = inner
        body = node.child_by_field_name("body")
        for member in body.named_children if body is not None else ():
            self._member(member, this, var)
        inner.assigned.pop("this", None)
        self.resolve_pending(inner)
        self.scope = outer
        self.summary.classes[index] = Class(
            definition,
            tuple(base for base in bases if base),
            0,
            tuple((name, self.shared_var(inner, name)) for name in inner.assigned),
            (),
        )
        return var

    def _bases(self, node: Node) -> tuple[list[Var], str]:
        bases: list[Var] = []
        names: list[str] = []
        for heritage in node.named_children:
            if heritage.type != "class_heritage":
                continue
            for child in heritage.named_children:
                if child.type == "implements_clause":
                    continue
                value = (
                    child.child_by_field_name("value") if child.type == "extends_clause" else None
                )
                base = value or child
                bases.append(self.expression(base))
                if base.type in {"identifier", "member_expression"}:
                    names.append(self.text(base))
        return bases, f" extends {', '.join(names)}" if names else ""

    def _member(self, node: Node, this: Var, cls: Var) -> None:
        words = {child.type for child in node.children}
        if node.type == "method_definition":
            key = node.child_by_field_name("name")
            if key is None:
                return
            name = self.property_name(key)
            self._add_method("__init__" if name == "constructor" else name, node, words)
        elif node.type in {"field_definition", "public_field_definition"}:
            key = node.child_by_field_name("property") or node.child_by_field_name("name")
            value = node.child_by_field_name("value")
            if key is None:
                return
            name = self.property_name(key)
            var = self.named_expression(name, value) if value is not None else self.new_var()
            annotated = self.new_var()
            self.copy(var, annotated)
            self.annotate(node.child_by_field_name("type"), annotated)
            target = cls if "static" in words else this
            line = node.start_point.row + 1
            self.summary.stores.append((target, name, annotated, self.scope.caller, line))
        elif node.type == "class_static_block":
            for child in node.named_children:
                self.block(child)
        elif node.type == "decorator":
            self.expression(node.named_children[0])

    def _add_method(self, name: str, node: Node, words: set[str]) -> None:
        scope = self.scope
        value = self.function(node)
        caller, line = scope.caller, node.start_point.row + 1
        if "set" in words:
            before = scope.assigned.get(name, [])
            if before:
                setter = self.load(before[-1], "setter", node)
                made = self.new_var()
                self.summary.decorations.append((made, setter, value, caller, line))
            return
        if words & {"static", "get"}:
            wrapper = self.shared_var(self.module, PROPERTY if "get" in words else CLASS_METHOD)
            made = self.new_var()
            self.summary.decorations.append((made, wrapper, value, caller, line))
            value = made
        scope.assigned[name] = [value]

    def super_(self) -> Var:
        """Return the variable of `super`."""
        if self.scope.owner < 0:
            return 0
        result = self.new_var()
        self.summary.supers.append((result, self.scope.owner, self.read_name("this")))
        return result
