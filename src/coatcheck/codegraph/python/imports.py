"""Reads imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

if TYPE_CHECKING:
    from coatcheck.codegraph.python.names import Names


def read_import(reader: Names, node: Node) -> None:
    """Read `import a.b, c as d`."""
    line = node.start_point.row + 1
    for child in node.named_children:
        var = reader.new_var()
        caller = reader.scope.caller
        if child.type == "aliased_import":
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
            if name is None or alias is None:
                continue
            reader.summary.imports.append((var, 0, reader.text(name), None, caller, line))
            reader.scope.assign(reader.text(alias), var)
        elif child.type == "dotted_name":
            module = reader.text(child)
            first = module.partition(".")[0]
            reader.summary.imports.append((var, 0, first, None, caller, line))
            if first != module:
                # The name is bound to the package, but the module is imported too.
                reader.summary.imports.append((0, 0, module, None, caller, line))
            reader.scope.assign(first, var)


def read_import_from(reader: Names, node: Node) -> None:
    """Read `from .a import b as c, d` and `from a import *`."""
    source = node.child_by_field_name("module_name")
    if source is None:
        return
    line, caller = node.start_point.row + 1, reader.scope.caller
    module, dots = reader.text(source), 0
    if source.type == "relative_import":
        stripped = module.replace(" ", "")
        dots = len(stripped) - len(stripped.lstrip("."))
        module = stripped[dots:]
    if any(child.type == "wildcard_import" for child in node.named_children):
        reader.summary.stars.append((dots, module, line))
        return
    for child in node.children_by_field_name("name"):
        name: Node | None = child
        alias: Node | None = child
        if child.type == "aliased_import":
            name, alias = child.child_by_field_name("name"), child.child_by_field_name("alias")
        if name is None or alias is None:
            continue
        var = reader.new_var()
        reader.summary.imports.append((var, dots, module, reader.text(name), caller, line))
        reader.scope.assign(reader.text(alias), var)
