"""Reads statements of JavaScript and TypeScript, imports and exports included."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.javascript.definitions import JavaScriptDefinitions
from coatcheck.codegraph.python.names import depth_limited
from coatcheck.codegraph.python.scopes import Changes, Loop
from coatcheck.codegraph.summary import DefinitionSummary, ModuleSummary, Var

# The value of `module.exports = ...`: the module itself, for `require`.
WHOLE = "="
_HOISTED = {"function_declaration", "generator_function_declaration"}


class JavaScriptStatements(JavaScriptDefinitions):
    """Reads a file of JavaScript or TypeScript."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._exports: dict[str, Var] = {}
        self._hoisted: dict[int, Var] = {}
        self._statements: dict[str, Callable[[Node], object]] = {
            "lexical_declaration": self._declaration,
            "variable_declaration": self._declaration,
            "class_declaration": self._class,
            "abstract_class_declaration": self._class,
            "enum_declaration": self._enum,
            "function_declaration": lambda _: None,
            "generator_function_declaration": lambda _: None,
            "function_signature": lambda _: None,
            "return_statement": self._return,
            "throw_statement": self._throw,
            "break_statement": self._leave,
            "continue_statement": self._leave,
            "if_statement": self._if,
            "for_in_statement": self._for_in,
            "for_statement": self._loop_statement,
            "while_statement": self._loop_statement,
            "do_statement": self._loop_statement,
            "try_statement": self._try,
            "switch_statement": self._switch,
            "statement_block": self.block,
            "import_statement": self._import,
            "export_statement": self._export,
            "internal_module": self._namespace,
            "interface_declaration": lambda _: None,
            "type_alias_declaration": lambda _: None,
            "ambient_declaration": lambda _: None,
            "comment": lambda _: None,
            "else_clause": self._block_of,
            "expression_statement": self._expression_statement,
        }

    def file(self, root: Node) -> ModuleSummary:
        """Read a whole file."""
        end = root.end_point.row + 1
        self.summary.definitions.append(DefinitionSummary("module", "", "", 1, end, None, -1))
        self.block(root)
        self.read_bodies()
        self.finish()
        self.summary.exports = dict(self._exports)
        return self.summary

    def block(self, node: Node) -> None:
        """Read statements in order, function declarations first."""
        for statement in node.named_children:
            inner = statement.child_by_field_name("declaration") or statement
            if inner.type in _HOISTED:
                name = inner.child_by_field_name("name")
                self.pending_name = "default" if name is None else None
                value = self.function(inner)
                if name is not None:
                    self.scope.assign(self.text(name), value)
                self._hoisted[inner.start_byte] = value
        for statement in node.named_children:
            self.statement(statement)

    @depth_limited(None)
    def statement(self, node: Node) -> None:
        """Read one statement."""
        reader = self._statements.get(node.type)
        if reader is not None:
            reader(node)
        else:
            self._discard(node)

    def _expression_statement(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "internal_module":
                self._namespace(child)
            else:
                self.expression(child)

    def _block_of(self, node: Node) -> None:
        for child in node.named_children:
            self.statement(child)

    # --- variables

    def _declaration(self, node: Node) -> None:
        for declarator in node.named_children:
            if declarator.type != "variable_declarator":
                continue
            target = declarator.child_by_field_name("name")
            value = declarator.child_by_field_name("value")
            if target is None:
                continue
            is_name = target.type == "identifier"
            var = 0
            if value is not None:
                var = (
                    self.named_expression(self.text(target), value)
                    if is_name
                    else self.expression(value)
                )
            annotation = declarator.child_by_field_name("type")
            if annotation is not None:
                annotated = self.new_var()
                self.copy(var, annotated)
                self.annotate(annotation, annotated)
                var = annotated
            self.declare(target, var)

    def declare(self, pattern: Node, value: Var) -> None:
        """Declare the variables of a pattern."""
        kind = pattern.type
        if kind in {"identifier", "shorthand_property_identifier_pattern"}:
            self.scope.assign(self.text(pattern), value)
        elif kind == "object_pattern":
            for child in pattern.named_children:
                self._declare_property(child, value)
        elif kind == "array_pattern":
            self._declare_elements(pattern, value)
        elif kind in {"assignment_pattern", "object_assignment_pattern"}:
            left = pattern.child_by_field_name("left")
            right = pattern.child_by_field_name("right")
            if left is not None:
                default = self.expression(right) if right is not None else 0
                self.declare(left, self.join([value, default]))
        elif kind in {"member_expression", "subscript_expression"}:
            self.bind_target(pattern, value)

    @depth_limited(None)
    def _declare_property(self, node: Node, value: Var) -> None:
        if node.type == "pair_pattern":
            key, inner = node.child_by_field_name("key"), node.child_by_field_name("value")
            if key is not None and inner is not None:
                self.declare(inner, self.load(value, self.property_name(key), node))
        elif node.type == "rest_pattern":
            self.declare(node.named_children[0], value)
        else:
            left = node.child_by_field_name("left") or node
            self.declare(node, self.load(value, self.text(left), node))

    @depth_limited(None)
    def _declare_elements(self, pattern: Node, value: Var) -> None:
        line, caller = pattern.start_point.row + 1, self.scope.caller
        index = 0
        for child in pattern.children:
            if child.type == ",":
                index += 1
            elif child.is_named and child.type != "comment":
                element = self.new_var() if value else 0
                if value:
                    key_var = -2 if child.type == "rest_pattern" else -3
                    self.summary.items.append((element, value, index, key_var, caller, line))
                if child.type == "rest_pattern":
                    rest = self.container("list", [(None, 0, element)])
                    self.declare(child.named_children[0], rest)
                else:
                    self.declare(child, element)

    def bind_target(self, target: Node, value: Var) -> None:
        """Assign a value to a target."""
        line, caller = target.start_point.row + 1, self.scope.caller
        if target.type == "identifier":
            self._assign_name(self.text(target), value)
        elif target.type == "member_expression":
            self._assign_member(target, value)
        elif target.type == "subscript_expression":
            base, key = target.child_by_field_name("object"), target.child_by_field_name("index")
            if base is None or key is None:
                return
            var, key_var = self.expression(base), self.expression(key)
            if var:
                written = self.literal_var(key)
                self.summary.item_stores.append((var, written, key_var, value, caller, line))
        elif target.type in {"array_pattern", "object_pattern"}:
            self.declare(target, value)

    def _assign_name(self, name: str, value: Var) -> None:
        scope = self.scope
        while scope.parent is not None and name not in scope.assigned:
            scope = scope.parent
        if scope is self.scope:
            scope.assign(name, value)
        else:
            scope.assigned.setdefault(name, []).append(value)

    def _assign_member(self, target: Node, value: Var) -> None:
        base, name = target.child_by_field_name("object"), target.child_by_field_name("property")
        if base is None or name is None:
            return
        shown, attribute = self.text(base), self.text(name)
        if shown == "module" and attribute == "exports":
            self._give(WHOLE, value)
            return
        if shown in {"exports", "module.exports"}:
            self._give(attribute, value)
            return
        var = self.expression(base)
        if var and value:
            line, caller = target.start_point.row + 1, self.scope.caller
            self.summary.stores.append((var, attribute, value, caller, line))

    # --- control flow

    def _return(self, node: Node) -> None:
        if node.named_children:
            self.add_return(self.expression(node.named_children[0]))
        self.scope.ended = True

    def _throw(self, node: Node) -> None:
        self._discard(node)
        self.scope.ended = True

    def _leave(self, _: Node) -> None:
        self.scope.ended = True

    def _branch(self, body: Node | None) -> Changes | None:
        mark = self.scope.begin_branch()
        if body is not None:
            self.statement(body)
        return self.scope.end_branch(mark)

    def _if(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.expression(condition)
        ends = [
            self._branch(node.child_by_field_name(name)) for name in ("consequence", "alternative")
        ]
        self.scope.merge_branches(ends, self.join)

    def _for_in(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        value = self.expression(right)
        operator = node.child_by_field_name("operator")
        element = self.new_var() if value else 0
        if value and (operator is None or operator.type == "of"):
            is_async = any(child.type == "await" for child in node.children)
            line = node.start_point.row + 1
            self.summary.iterations.append((element, value, is_async, self.scope.caller, line))
        self._loop(node, lambda: self.declare(left, element))

    def _loop_statement(self, node: Node) -> None:
        def head() -> None:
            for name in ("initializer", "condition", "increment"):
                child = node.child_by_field_name(name)
                if child is not None:
                    self.statement(child) if child.type in self._statements else self.expression(
                        child
                    )

        self._loop(node, head)

    def _loop(self, node: Node, head: Callable[[], None]) -> None:
        scope = self.scope
        mark = scope.begin_branch()
        loop = Loop(scope.log_position())
        scope.loops.append(loop)
        head()
        body = node.child_by_field_name("body")
        if body is not None:
            self.statement(body)
        scope.end_branch(mark)
        scope.loops.pop()
        assigned = scope.assigned_since(loop.start)
        for name, join in loop.joins:
            for var in dict.fromkeys(assigned.get(name, ())):
                self.copy(var, join)
        for name, operands in assigned.items():
            before = scope.versions.get(name, (0, 0))[0]
            scope.bind(name, self.join([before, *operands]))

    def _try(self, node: Node) -> None:
        scope = self.scope
        start, mark = scope.log_position(), scope.begin_branch()
        body = node.child_by_field_name("body")
        if body is not None:
            self.block(body)
        ends = [scope.end_branch(mark)]
        interrupted = {
            name: self.join([scope.versions.get(name, (0, 0))[0], *operands])
            for name, operands in scope.assigned_since(start).items()
        }
        handler = node.child_by_field_name("handler")
        if handler is not None:
            mark = scope.begin_branch()
            for name, var in interrupted.items():
                scope.bind(name, var)
            parameter = handler.child_by_field_name("parameter")
            if parameter is not None:
                self.declare(parameter, 0)
            inner = handler.child_by_field_name("body")
            if inner is not None:
                self.block(inner)
            ends.append(scope.end_branch(mark))
        scope.merge_branches(ends, self.join)
        finalizer = node.child_by_field_name("finalizer")
        if finalizer is not None:
            self._block_of(finalizer)

    def _switch(self, node: Node) -> None:
        value = node.child_by_field_name("value")
        if value is not None:
            self.expression(value)
        body = node.child_by_field_name("body")
        ends: list[Changes | None] = [{}]
        for case in body.named_children if body is not None else ():
            mark = self.scope.begin_branch()
            for child in case.named_children:
                self.statement(child)
            self.scope.ended = False
            ends.append(self.scope.end_branch(mark))
        self.scope.merge_branches(ends, self.join)

    # --- declarations

    def _class(self, node: Node) -> None:
        for child in node.named_children:
            if child.type == "decorator":
                self.expression(child.named_children[0])
        name = node.child_by_field_name("name")
        value = self.class_(node)
        if name is not None:
            self.scope.assign(self.text(name), value)

    def _enum(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.define("class", self.text(name), node, self.text(name))
            self.scope.assign(self.text(name), 0)

    def _namespace(self, node: Node) -> None:
        """Read a namespace: an object whose exports are its attributes."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return
        before = set(self._exports)
        self.block(body)
        inner = [key for key in self._exports if key not in before]
        elements = [(key, 0, self._exports.pop(key)) for key in inner]
        self.scope.assign(self.text(name), self.container("object", list(elements)))

    # --- modules

    def _give(self, name: str, var: Var) -> None:
        target = self._exports.get(name)
        if target is None:
            target = self._exports[name] = self.new_var()
        self.copy(var, target)

    def _source_of(self, node: Node) -> str | None:
        source = node.child_by_field_name("source")
        return self.text(source)[1:-1] if source is not None else None

    def _import(self, node: Node) -> None:  # noqa: C901
        source = self._source_of(node)
        line, caller = node.start_point.row + 1, self.scope.caller
        for clause in node.named_children:
            if clause.type == "import_require_clause":
                required = self._source_of(clause)
                if required is not None:
                    self._take(clause.named_children[0], required, None, line)
            if clause.type != "import_clause" or source is None:
                continue
            for child in clause.named_children:
                if child.type == "identifier":
                    self._take(child, source, "default", line)
                elif child.type == "namespace_import":
                    self._take(child.named_children[0], source, None, line)
                elif child.type == "named_imports":
                    for one in child.named_children:
                        name = one.child_by_field_name("name")
                        if one.type == "import_specifier" and name is not None:
                            alias = one.child_by_field_name("alias") or name
                            self._take(alias, source, self.text(name), line)
        if source is not None:
            self.summary.imports.append((0, 0, source, None, caller, line))

    def _take(self, name: Node, source: str, attribute: str | None, line: int) -> None:
        var = self.new_var()
        self.summary.imports.append((var, 0, source, attribute, self.scope.caller, line))
        self.scope.assign(self.text(name), var)

    def _export(self, node: Node) -> None:
        source = self._source_of(node)
        declaration = node.child_by_field_name("declaration")
        value = node.child_by_field_name("value")
        words = {child.type for child in node.children}
        line = node.start_point.row + 1
        for child in node.named_children:
            if child.type == "decorator":
                self.expression(child.named_children[0])
        if declaration is not None:
            self._export_declaration(declaration, is_default="default" in words)
        elif value is not None:
            var = self.named_expression("default", value)
            self._give("default", var)
        elif "=" in words and node.named_children:
            self._give(WHOLE, self.expression(node.named_children[0]))
        elif source is not None and "*" in words:
            self.summary.stars.append((0, source, line))
        else:
            self._export_clause(node, source, line)

    def _export_declaration(self, declaration: Node, *, is_default: bool) -> None:
        if declaration.type in _HOISTED:
            written = declaration.child_by_field_name("name")
            var = self._hoisted.get(declaration.start_byte, 0)
            shown = "default" if is_default or written is None else self.text(written)
            self._give(shown, var)
            return
        if is_default and declaration.child_by_field_name("name") is None:
            self._give("default", self.named_expression("default", declaration))
            return
        before = self.scope.bound
        self.statement(declaration)
        for name, var in self.scope.bound_since(before).items():
            self._give("default" if is_default else name, var)

    def _export_clause(self, node: Node, source: str | None, line: int) -> None:
        caller = self.scope.caller
        for clause in node.named_children:
            if clause.type == "namespace_export" and source is not None:
                var = self.new_var()
                self.summary.imports.append((var, 0, source, None, caller, line))
                self._give(self.text(clause.named_children[0]), var)
            if clause.type != "export_clause":
                continue
            for one in clause.named_children:
                name = one.child_by_field_name("name")
                if name is None:
                    continue
                shown = self.text(one.child_by_field_name("alias") or name)
                if source is None:
                    self._give(shown, self.shared_var(self.module, self.text(name)))
                else:
                    var = self.new_var()
                    item = (var, 0, source, self.text(name), caller, line)
                    self.summary.imports.append(item)
                    self._give(shown, var)
