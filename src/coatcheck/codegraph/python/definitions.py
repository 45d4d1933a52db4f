"""Reads functions and classes: parameters, signatures, annotations, decorators.

The body of a class runs in place and is read there. The body of a function runs later, when the
names around it are assigned, and is read after the scope around it.

Without calls, a function is only its definition, unless its body is relevant: unless it defines
classes or assigns names of other scopes.
"""

from __future__ import annotations

import re
from abc import abstractmethod

from tree_sitter import Node

from coatcheck.codegraph.python.expressions import Expressions
from coatcheck.codegraph.python.names import MAX_SIGNATURE, depth_limited
from coatcheck.codegraph.python.scopes import NameScope
from coatcheck.codegraph.summary import Class, Function, Var

_SPACE = re.compile(r"\s+")
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
# The subscript of these annotations is the type of the elements.
_HOLDERS = {
    "list": "list", "List": "list", "Sequence": "list", "Iterable": "list", "Iterator": "list",
    "Collection": "list", "set": "set", "Set": "set", "frozenset": "set", "deque": "list",
    "tuple": "list", "Tuple": "list", "dict": "dict", "Dict": "dict", "Mapping": "dict",
    "MutableMapping": "dict", "defaultdict": "dict", "Generator": "list",
    "AsyncIterator": "list", "AsyncIterable": "list",
}  # fmt: skip
_ALTERNATIVES = {"Optional", "Union", "Final", "ClassVar", "Annotated", "Required", "NotRequired"}

# Parameter nodes whose text is their signature.
_PLAIN_PARAMETERS = re.compile(
    r"\((?:(?:\*{0,2}[A-Za-z_]\w*|\*|/)(?:, (?:\*{0,2}[A-Za-z_]\w*|\*|/))*)?\)", re.ASCII
)
# Without one of these, the names of a function have no effect outside it.
_NAMING = re.compile(rb"class\b|global\b")

_NOTHING: list[Node] = []


class Parameters:
    """The parameters of a function."""

    def __init__(self) -> None:
        self.positional: list[tuple[str, Var]] = []
        self.keyword_only: list[tuple[str, Var]] = []
        self.defaults: list[tuple[str, Var]] = []
        self.rest: Var = 0
        self.keywords: Var = 0
        self.names: list[tuple[str, Var]] = []


class Definitions(Expressions):
    """Reads definitions."""

    # Without `\b` before the words, which would take twice as long; `subclass` matches in vain.
    relevant = re.compile(rb":=|class\b|def\b|lambda\b|import\b|global\b|nonlocal\b")

    @abstractmethod
    def block(self, node: Node) -> None:
        """Read statements (statements.py)."""

    def has_effect(self, node: Node) -> bool:
        """Tell whether a node must be read even without calls.

        Within a loop, a name may also hold what the loop assigns to it later.
        """
        scope = self.scope
        return super().has_effect(node) or bool(scope.loops and not scope.is_outline)

    # --- functions

    def function(self, node: Node) -> Var:
        """Read a `def`; queue its body."""
        name = self.text(node.child_by_field_name("name") or node)
        kind = "method" if self.scope.kind == "class" else "function"
        definition = self.define(kind, name, node, self._signature(node, name))
        return self._function(node, definition)

    def lambda_(self, node: Node) -> Var:
        """Read a lambda; queue its body."""
        scope = self.scope
        scope.lambdas += 1
        definition = self.define("function", f"<lambda{scope.lambdas}>", node, None)
        return self._function(node, definition)

    def _function(self, node: Node, definition: int) -> Var:
        if not self._has_more(node):
            return self.new_var()
        scope = self.scope
        inner = NameScope("function", scope, definition, definition)
        inner.captured = dict(scope.local_names)
        inner.owner = scope.owner
        inner.function = len(self.summary.functions)
        parameters = self._parameters(node.child_by_field_name("parameters"), inner)
        first = parameters.positional[0][1] if parameters.positional else 0
        inner.first_parameter = first if scope.kind == "class" else scope.first_parameter
        result = self.new_var()
        self._annotate(node.child_by_field_name("return_type"), result)
        self.summary.functions.append(
            Function(
                definition,
                tuple(parameters.positional),
                parameters.rest,
                tuple(parameters.keyword_only),
                parameters.keywords,
                tuple(parameters.defaults),
                result,
                (),
                (),
                0,
                bool(node.children) and node.children[0].type == "async",
                scope.owner if scope.kind == "class" else -1,
            )
        )
        self.scopes.append(inner)
        self.waiting.append((node, inner))
        var = self.new_var()
        self.summary.function_values.append((var, inner.function))
        return var

    def _has_more(self, node: Node) -> bool:
        """Tell whether the body of a function must be read."""
        parts = (node.child_by_field_name(name) for name in ("body", "parameters"))
        return self.with_calls or any(part and self.has_effect(part) for part in parts)

    def read_bodies(self) -> None:
        """Read the queued bodies, which may queue others."""
        while self.waiting:
            node, scope = self.waiting.popleft()
            self.scope = scope
            self.depth = 0
            body = node.child_by_field_name("body")
            if body is not None and self.has_effect(body):
                scope.is_outline = not (
                    self.with_calls or _NAMING.search(self.source, body.start_byte, body.end_byte)
                )
                if node.type == "lambda":
                    self.add_return(self.expression(body))
                else:
                    self.block(body)
            self.resolve_pending(scope)

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

    def store_parameter(self, base: Var, attribute: str, value: Var) -> bool:
        """Record `self.attribute = parameter`, so that each call stores its own argument."""
        scope = self.scope
        if scope.function < 0 or base != scope.first_parameter:
            return False
        function = self.summary.functions[scope.function]
        if function.owner < 0:
            return False
        for name, parameter in function.positional[1:] + function.keyword_only:
            if parameter == value:
                stored_parameters = (*function.stored_parameters, (attribute, name))
                self.summary.functions[scope.function] = function._replace(
                    stored_parameters=stored_parameters
                )
                return True
        return False

    def generator_values(self) -> Var:
        """Return the variable of the values that the current function yields."""
        if self.scope.function < 0:
            return 0
        function = self.summary.functions[self.scope.function]
        if not function.yields:
            function = function._replace(yields=self.new_var())
            self.summary.functions[self.scope.function] = function
        return function.yields

    def _parameters(self, node: Node | None, inner: NameScope) -> Parameters:
        found = Parameters()
        keyword_only = False
        for child in node.named_children if node is not None else ():
            name, annotation, default, stars = self._parameter(child)
            if name is None:
                keyword_only = keyword_only or child.type == "keyword_separator"
                continue
            var = self.new_var()
            inner.assigned[name] = [var]
            inner.bind(name, var)
            if stars == 1:
                found.rest, keyword_only = var, True
                continue
            if stars == 2:
                found.keywords = var
                continue
            (found.keyword_only if keyword_only else found.positional).append((name, var))
            self._annotate(annotation, var)
            if default is not None:
                found.defaults.append((name, self.operand(default)))
        return found

    def _parameter(self, node: Node) -> tuple[str | None, Node | None, Node | None, int]:
        """Split a parameter into name, annotation, default and number of stars."""
        annotation = node.child_by_field_name("type")
        default = node.child_by_field_name("value")
        name: Node | None = node
        if node.type in {"default_parameter", "typed_default_parameter"}:
            name = node.child_by_field_name("name")
        elif node.type == "typed_parameter":
            name = node.named_children[0]
        stars = 0
        if name is not None and name.type in {"list_splat_pattern", "dictionary_splat_pattern"}:
            stars = 1 if name.type == "list_splat_pattern" else 2
            name = name.named_children[0] if name.named_children else None
        if name is None or name.type != "identifier":
            return None, None, None, 0
        return self.text(name), annotation, default, stars

    def _signature(self, node: Node, name: str) -> str:
        """Return the signature: names and annotations as written, without default values."""
        parts = []
        parameters = node.child_by_field_name("parameters")
        returns = node.child_by_field_name("return_type")
        if parameters is not None and returns is None and not parameters.has_error:
            written = self.text(parameters)
            if _PLAIN_PARAMETERS.fullmatch(written):
                return f"{name}{written}"[:MAX_SIGNATURE]
        for child in parameters.named_children if parameters is not None else ():
            if child.type in {"keyword_separator", "positional_separator"}:
                parts.append(self.text(child))
                continue
            found, annotation, _, stars = self._parameter(child)
            if found is not None:
                shown = f": {self.text(annotation)}" if annotation is not None else ""
                parts.append("*" * stars + found + shown)
        result = f" -> {self.text(returns)}" if returns is not None else ""
        return _SPACE.sub(" ", f"{name}({', '.join(parts)}){result}")[:MAX_SIGNATURE]

    # --- annotations

    def _annotate(self, annotation: Node | None, var: Var) -> None:
        """Record a variable's annotation, a fallback for an empty variable."""
        if annotation is None or not var or not self.with_calls:
            return
        waiting = [annotation]
        while waiting:
            node = waiting.pop()
            kind = node.type
            if kind in {"type", "parenthesized_expression", "union_type", "binary_operator"}:
                waiting.extend(node.named_children)
            elif kind in {"identifier", "attribute"}:
                self.summary.annotations.append((var, self._annotated_class(self.text(node))))
            elif kind == "string":
                written = self.text(node).strip("'\"").strip()
                for name in written.split("|"):
                    if _DOTTED.match(name.strip()):
                        class_var = self._annotated_class(name.strip())
                        self.summary.annotations.append((var, class_var))
            elif kind in {"generic_type", "subscript"}:
                waiting.extend(self._generic(node, var))

    @depth_limited(_NOTHING)
    def _generic(self, node: Node, var: Var) -> list[Node]:
        """Return the alternatives of `Optional[...]`; for `list[...]`, annotate the elements."""
        children = [child for child in node.named_children if child.type != "comment"]
        if not children:
            return []
        name = self.text(children[0]).rpartition(".")[2]
        arguments = [
            argument
            for child in children[1:]
            for argument in (child.named_children if child.type == "type_parameter" else [child])
        ]
        if name in _ALTERNATIVES:
            return arguments[:1] if name == "Annotated" else arguments
        if name in _HOLDERS and arguments:
            element = self.new_var()
            kind = _HOLDERS[name]
            self._annotate(arguments[-1] if kind == "dict" else arguments[0], element)
            holder = self.container(kind, [(None, 0, element)])
            self.summary.annotations.append((var, -holder))
        return []

    def _annotated_class(self, dotted: str) -> Var:
        first, *rest = dotted.split(".")
        var = self.read_name(first)
        for attribute in rest:
            if not var:
                return 0
            loaded = self.new_var()
            self.summary.loads.append((loaded, var, attribute, self.scope.caller, 0))
            var = loaded
        return var

    def annotated(self, annotation: Node | None, var: Var) -> None:
        """Record the annotation of an assigned variable, a fallback for an unknown value."""
        self._annotate(annotation, var)

    # --- classes

    def class_(self, node: Node) -> Var:
        """Read a class; its body runs in place."""
        name = self.text(node.child_by_field_name("name") or node)
        bases: list[Var] = []
        keywords: list[tuple[str | None, Var]] = []
        superclasses = node.child_by_field_name("superclasses")
        shown = ""
        if superclasses is not None:
            self.arguments(superclasses, bases, keywords)
            shown = f"({', '.join(self._base_names(superclasses))})"
        definition = self.define("class", name, node, f"{name}{shown}"[:MAX_SIGNATURE])
        outer = self.scope
        inner = NameScope("class", outer, definition, outer.caller)
        inner.captured = dict(outer.local_names)
        inner.owner = index = len(self.summary.classes)
        inner.first_parameter = 0
        self.scopes.append(inner)
        # Its methods refer to its index before it is complete.
        self.summary.classes.append(Class(definition, (), 0, (), ()))
        self.scope = inner
        body = node.child_by_field_name("body")
        fields: list[str] = []
        if body is not None:
            self.block(body)
            fields = self._fields(body)
        self.resolve_pending(inner)
        self.scope = outer
        self.summary.classes[index] = Class(
            definition,
            tuple(abs(base) for base in bases if base),
            next((var for keyword, var in keywords if keyword == "metaclass"), 0),
            tuple((name, self.shared_var(inner, name)) for name in inner.assigned),
            tuple(fields),
        )
        var = self.new_var()
        self.summary.class_values.append((var, index))
        return var

    def _base_names(self, superclasses: Node) -> list[str]:
        return [
            self.text(base)
            for base in superclasses.named_children
            if base.type in {"identifier", "attribute"}
        ]

    def _fields(self, body: Node) -> list[str]:
        found = []
        for statement in body.named_children:
            inner = statement.named_children[0] if statement.named_children else statement
            if inner.type == "assignment" and inner.child_by_field_name("type") is not None:
                left = inner.child_by_field_name("left")
                if left is not None and left.type == "identifier":
                    found.append(self.text(left))
        return found

    # --- decorators

    def decorated(self, node: Node) -> None:
        """Read a decorated definition; decorators apply from the inside out."""
        decorators = [child for child in node.named_children if child.type == "decorator"]
        definition = node.child_by_field_name("definition")
        is_class = definition is not None and definition.type == "class_definition"
        read = self.expression if is_class else self.operand
        operands = [read(child.named_children[0]) for child in decorators]
        if definition is None:
            return
        value = self.class_(definition) if is_class else self.function(definition)
        for decorator, var in zip(reversed(decorators), reversed(operands), strict=True):
            if var:
                result = self.new_var()
                line = decorator.start_point.row + 1
                self.summary.decorations.append((result, var, value, self.scope.caller, line))
                value = result
        name = definition.child_by_field_name("name")
        if name is not None:
            self.scope.assign(self.text(name), value)
