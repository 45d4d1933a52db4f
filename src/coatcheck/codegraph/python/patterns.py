"""Reads `match`: binds the names of patterns to parts of the subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

from coatcheck.codegraph.summary import Var

if TYPE_CHECKING:
    from coatcheck.codegraph.python.statements import PythonStatements


def read_match(reader: PythonStatements, node: Node) -> None:
    """Read the cases as branches."""
    subjects = [reader.expression(child) for child in node.children_by_field_name("subject")]
    body = node.child_by_field_name("body")
    if body is None:
        return
    subject = subjects[0] if len(subjects) == 1 else 0
    scope = reader.scope
    ends = []
    for case in body.named_children:
        if case.type != "case_clause":
            continue
        mark = scope.begin_branch()
        for child in case.named_children:
            if child.type == "case_pattern":
                _bind_pattern(reader, child, subject)
            elif child.type == "if_clause":
                for part in child.named_children:
                    reader.expression(part)
        consequence = case.child_by_field_name("consequence")
        if consequence is not None:
            reader.block(consequence)
        ends.append(scope.end_branch(mark))
    scope.merge_branches([*ends, {}], reader.join)


def _bind_pattern(reader: PythonStatements, pattern: Node, subject: Var) -> None:  # noqa: C901
    """Bind the names of a pattern; a worklist holds the nested patterns."""
    waiting: list[tuple[Node, Var]] = [(pattern, subject)]
    line, caller = pattern.start_point.row + 1, reader.scope.caller
    while waiting:
        node, value = waiting.pop()
        kind = node.type
        children = [child for child in node.named_children if child.type != "comment"]
        if kind in {"case_pattern", "union_pattern"}:
            waiting.extend((child, value) for child in children)
        elif kind == "dotted_name" and len(children) == 1:
            name = reader.text(children[0])
            if name != "_":
                reader.scope.assign(name, value)
        elif kind == "as_pattern" and len(children) == 2:
            waiting.append((children[0], value))
            reader.scope.assign(reader.text(children[1]), value)
        elif kind in {"list_pattern", "tuple_pattern"}:
            for index, child in enumerate(children):
                element = reader.new_var() if value else 0
                if value:
                    reader.summary.items.append((element, value, index, -3, caller, line))
                waiting.append((child, element))
        elif kind == "class_pattern":
            waiting.extend(_class_pattern(reader, children, value, line))
        elif kind == "splat_pattern" and children:
            reader.scope.assign(reader.text(children[0]), 0)


def _class_pattern(
    reader: PythonStatements, children: list[Node], value: Var, line: int
) -> list[tuple[Node, Var]]:
    """Bind `Name(attribute=pattern)` to attributes."""
    found: list[tuple[Node, Var]] = []
    for child in children[1:]:
        inner = child
        if child.type == "case_pattern":
            if not child.named_children:
                continue  # `_` binds nothing
            inner = child.named_children[0]
        if inner.type == "keyword_pattern" and len(inner.named_children) == 2:
            name, pattern = inner.named_children
            var = reader.new_var() if value else 0
            if value:
                caller = reader.scope.caller
                reader.summary.loads.append((var, value, reader.text(name), caller, line))
            found.append((pattern, var))
        else:
            found.append((inner, 0))
    return found
