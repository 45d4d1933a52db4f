"""Reads statements, in the order they run."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from coatcheck.codegraph.python.definitions import Definitions
from coatcheck.codegraph.python.imports import read_import, read_import_from
from coatcheck.codegraph.python.names import depth_limited
from coatcheck.codegraph.python.patterns import read_match
from coatcheck.codegraph.python.scopes import Changes, Loop
from coatcheck.codegraph.summary import DefinitionSummary, ModuleSummary, Var

_AUGMENTED = {
    "+=": "__iadd__", "-=": "__isub__", "*=": "__imul__", "/=": "__itruediv__",
    "//=": "__ifloordiv__", "%=": "__imod__", "**=": "__ipow__", "@=": "__imatmul__",
    "&=": "__iand__", "|=": "__ior__", "^=": "__ixor__", "<<=": "__ilshift__", ">>=": "__irshift__",
}  # fmt: skip
_ASSIGNMENTS = {"assignment", "augmented_assignment"}


class PythonStatements(Definitions):
    """Reads a Python file."""

    def __init__(self, source: bytes) -> None:
        super().__init__(source)
        self._statements: dict[str, Callable[[Node], object]] = {
            "function_definition": self._define_function,
            "class_definition": self._define_class,
            "decorated_definition": self.decorated,
            "return_statement": self._return,
            "raise_statement": self._raise,
            "break_statement": self._leave,
            "continue_statement": self._leave,
            "if_statement": self._if,
            "for_statement": self._for,
            "while_statement": self._while,
            "try_statement": self._try,
            "with_statement": self._with,
            "match_statement": lambda node: read_match(self, node),
            "import_statement": lambda node: read_import(self, node),
            "import_from_statement": lambda node: read_import_from(self, node),
            "future_import_statement": lambda _: None,
            "global_statement": self._global,
            "nonlocal_statement": self._nonlocal,
            "delete_statement": lambda _: None,
            "block": self.block,
            "comment": lambda _: None,
        }

    def file(self, root: Node) -> ModuleSummary:
        """Read a whole file."""
        end = root.end_point.row + 1
        self.summary.definitions.append(DefinitionSummary("module", "", "", 1, end, None, -1))
        self.block(root)
        self.read_bodies()
        self.finish()
        module = self.module
        # Other modules may import any of these: create their variables before names are resolved.
        self.summary.exports = {name: self.shared_var(module, name) for name in module.assigned}
        return self.summary

    def finish(self) -> None:
        """Resolve the variables, those of the module included."""
        for name in self.module.assigned:
            self.shared_var(self.module, name)
        super().finish()

    @depth_limited(None)
    def block(self, node: Node) -> None:
        """Read statements in order."""
        for statement in node.named_children:
            if not self.with_calls and self._is_call_only(statement):
                continue
            reader = self._statements.get(statement.type)
            if reader is not None:
                reader(statement)
            else:
                for child in statement.named_children:
                    if child.type != "string":  # a docstring
                        self.expression(child)

    def _is_call_only(self, statement: Node) -> bool:
        """Tell whether only calls need a statement."""
        if self.has_effect(statement):
            return False
        return self.scope.is_outline or (
            statement.type not in self._statements
            and not any(child.type in _ASSIGNMENTS for child in statement.named_children)
        )

    def _define_function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.scope.assign(self.text(name), self.function(node))

    def _define_class(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        if name is not None:
            self.scope.assign(self.text(name), self.class_(node))

    # --- assignments

    def assignment(self, node: Node) -> Var:
        """Read an assignment; several targets (`a = b = f`) nest to the right."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        annotation = node.child_by_field_name("type")
        if left is None:
            return 0
        if right is None:
            if annotation is not None and left.type == "identifier":
                var = self.new_var()
                self.annotated(annotation, var)
                name = self.text(left)
                if self.scope.kind != "function" or name not in self.scope.versions:
                    self.scope.assign(name, var)
            return 0
        pairs = self._assign_pairwise(left, right)
        if pairs is not None:
            values = [self.expression(value) for _, value in pairs]
            for (target, _), value in zip(pairs, values, strict=True):
                self.bind_target(target, value)
            return 0
        value = self.expression(right)
        if annotation is not None:
            var = self.new_var()
            self.copy(value, var)
            self.annotated(annotation, var)
            value = var
        if left.type == "identifier" and self.text(left) == "__all__":
            self._note_public(right)
        self.bind_target(left, value)
        return value

    def _note_public(self, right: Node) -> None:
        if self.scope.kind == "module" and right.type in {"list", "tuple"}:
            names = [self.literal_key(child) for child in right.named_children]
            self.summary.public = tuple(name for name in names if isinstance(name, str))

    @staticmethod
    def _assign_pairwise(left: Node, right: Node) -> list[tuple[Node, Node]] | None:
        """Pair targets with values if both are written out: `a, b = b, a`."""
        if left.type not in {"pattern_list", "tuple_pattern", "list_pattern"}:
            return None
        if right.type not in {"expression_list", "tuple", "list"}:
            return None
        targets = [child for child in left.named_children if child.type != "comment"]
        values = [child for child in right.named_children if child.type != "comment"]
        stars = {"list_splat_pattern", "list_splat"}
        if len(targets) != len(values) or any(one.type in stars for one in targets + values):
            return None
        return list(zip(targets, values, strict=True))

    def augmented_assignment(self, node: Node) -> Var:
        """Read `a += b`."""
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        operator = node.child_by_field_name("operator")
        if left is None or right is None:
            return 0
        before, value = self.expression(left), self.operand(right)
        method = _AUGMENTED.get(operator.type if operator is not None else "")
        after = self.operator(node, before, method, value)
        if left.type == "identifier":
            self.scope.assign(self.text(left), self.join([before, after]))
        return 0

    def bind_target(self, target: Node, value: Var) -> None:
        """Assign a value to a target."""
        kind = target.type
        line, caller = target.start_point.row + 1, self.scope.caller
        if kind == "identifier":
            self.scope.assign(self.text(target), value)
        elif kind == "attribute":
            base = self.operand(target.named_children[0])
            name = target.child_by_field_name("attribute")
            if base and name is not None and value:
                if self.store_parameter(base, self.text(name), value):
                    return
                self.summary.stores.append((base, self.text(name), value, caller, line))
        elif kind == "subscript":
            container = target.child_by_field_name("value")
            keys = target.children_by_field_name("subscript")
            base = self.operand(container) if container is not None else 0
            operands = [self.operand(key) for key in keys]
            if base and len(keys) == 1:
                written = self.literal_key(keys[0])
                self.summary.item_stores.append((base, written, operands[0], value, caller, line))
        elif kind in {"pattern_list", "tuple_pattern", "list_pattern", "tuple", "list"}:
            self._unpack(target, value)
        elif kind in {"list_splat_pattern", "parenthesized_expression", "list_splat"}:
            for child in target.named_children:
                self.bind_target(child, value)

    @depth_limited(None)
    def _unpack(self, target: Node, value: Var) -> None:
        line, caller = target.start_point.row + 1, self.scope.caller
        targets = [child for child in target.named_children if child.type != "comment"]
        starred = False
        for index, child in enumerate(targets):
            element = self.new_var() if value else 0
            if child.type == "list_splat_pattern":
                starred = True
                if value:
                    self.summary.items.append((element, value, index, -2, caller, line))
                    element = self.container("list", [(None, 0, element)])
            elif value:
                key = index - len(targets) if starred else index
                self.summary.items.append((element, value, key, -3, caller, line))
            self.bind_target(child, element)

    # --- jumps

    def _return(self, node: Node) -> None:
        if node.named_children:
            self.add_return(self.operand(node.named_children[0]))
        self.scope.ended = True

    def _raise(self, node: Node) -> None:
        for index, child in enumerate(node.named_children):
            value = self.operand(child)
            if value and index == 0:
                self.summary.raises.append((value, self.scope.caller, node.start_point.row + 1))
        self.scope.ended = True

    def _leave(self, _: Node) -> None:
        self.scope.ended = True

    def _global(self, node: Node) -> None:
        for child in node.named_children:
            if self.scope is not self.module:
                self.scope.declared[self.text(child)] = self.module

    def _nonlocal(self, node: Node) -> None:
        for child in node.named_children:
            name = self.text(child)
            around = self.scope.parent
            while around is not None and not (
                around.kind == "function" and name in around.assigned
            ):
                around = around.parent
            if around is not None:
                self.scope.declared[name] = around

    # --- branches

    def _if(self, node: Node) -> None:
        self._condition(node)
        ends = [self._branch(node.child_by_field_name("consequence"))]
        has_else = False
        for clause in node.children_by_field_name("alternative"):
            if clause.type == "elif_clause":
                self._condition(clause)
                ends.append(self._branch(clause.child_by_field_name("consequence")))
            else:
                has_else = True
                ends.append(self._branch(clause.child_by_field_name("body")))
        if not has_else:
            ends.append({})
        self.scope.merge_branches(ends, self.join)

    def _condition(self, node: Node) -> None:
        condition = node.child_by_field_name("condition")
        if condition is not None:
            self.operand(condition)

    def _branch(self, body: Node | None) -> Changes | None:
        mark = self.scope.begin_branch()
        if body is not None:
            self.block(body)
        return self.scope.end_branch(mark)

    def _for(self, node: Node) -> None:
        left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
        if left is None or right is None:
            return
        value = self.expression(right)
        element = self.new_var() if value else 0
        if value:
            is_async = bool(node.children) and node.children[0].type == "async"
            self.summary.iterations.append(
                (element, value, is_async, self.scope.caller, node.start_point.row + 1)
            )
        self._loop(node, lambda: self.bind_target(left, element))

    def _while(self, node: Node) -> None:
        self._loop(node, lambda: self._condition(node))

    def _loop(self, node: Node, head: Callable[[], None]) -> None:
        scope = self.scope
        mark = scope.begin_branch()
        loop = Loop(scope.log_position())
        scope.loops.append(loop)
        head()
        body = node.child_by_field_name("body")
        if body is not None:
            self.block(body)
        scope.end_branch(mark)
        scope.loops.pop()
        assigned = scope.assigned_since(loop.start)
        for name, join in loop.joins:
            for var in dict.fromkeys(assigned.get(name, ())):
                self.copy(var, join)
        for name, operands in assigned.items():
            before = scope.versions.get(name, (0, 0))[0]
            scope.bind(name, self.join([before, *operands]))
        alternative = node.child_by_field_name("alternative")
        if alternative is not None:
            self.block(alternative.child_by_field_name("body") or alternative)

    def _try(self, node: Node) -> None:
        scope = self.scope
        start = scope.log_position()
        mark = scope.begin_branch()
        body = node.child_by_field_name("body")
        if body is not None:
            self.block(body)
        for child in node.named_children:
            if child.type == "else_clause":
                self.block(child.child_by_field_name("body") or child)
        ends = [scope.end_branch(mark)]
        # Any statement of the body may raise the exception.
        interrupted = {
            name: self.join([scope.versions.get(name, (0, 0))[0], *operands])
            for name, operands in scope.assigned_since(start).items()
        }
        for child in node.named_children:
            if child.type in {"except_clause", "except_group_clause"}:
                mark = scope.begin_branch()
                for name, var in interrupted.items():
                    scope.bind(name, var)
                self._except(child)
                ends.append(scope.end_branch(mark))
        scope.merge_branches(ends, self.join)
        for child in node.named_children:
            if child.type == "finally_clause":
                ended, scope.ended = scope.ended, False
                for block in child.named_children:
                    self.block(block)
                scope.ended = ended or scope.ended

    def _except(self, clause: Node) -> None:
        for child in clause.named_children:
            if child.type == "block":
                self.block(child)
            elif child.type == "as_pattern":
                alias = child.child_by_field_name("alias")
                caught = self.operand(child.named_children[0])
                if alias is not None and alias.named_children:
                    var = self.new_var()
                    if caught:
                        self.summary.instances.append((var, caught))
                    self.bind_target(alias.named_children[0], var)
            else:
                self.operand(child)

    def _with(self, node: Node) -> None:
        is_async = bool(node.children) and node.children[0].type == "async"
        items = [
            item
            for clause in node.named_children
            if clause.type == "with_clause"
            for item in _with_items(clause)
        ]
        for value, target in items:
            manager = self.expression(value)
            var = self.new_var() if manager else 0
            if manager:
                self.summary.contexts.append(
                    (var, manager, is_async, self.scope.caller, value.start_point.row + 1)
                )
            if target is not None:
                self.bind_target(target, var)
        body = node.child_by_field_name("body")
        if body is not None:
            self.block(body)


def _with_items(clause: Node) -> list[tuple[Node, Node | None]]:
    found: list[tuple[Node, Node | None]] = []
    for item in clause.named_children:
        value = item.child_by_field_name("value") if item.type == "with_item" else None
        if value is None:
            continue
        # The grammar reads `with (a as b, c as d):` as a tuple.
        parts = value.named_children if value.type == "tuple" else [value]
        for part in parts:
            alias = part.child_by_field_name("alias") if part.type == "as_pattern" else None
            if part.type == "as_pattern" and alias is not None and alias.named_children:
                found.append((part.named_children[0], alias.named_children[0]))
            else:
                found.append((part, None))
    return found
