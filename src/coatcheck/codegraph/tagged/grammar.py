"""The node types of the grammars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tree_sitter import Node


@dataclass(frozen=True)
class Grammar:
    """The relevant node types of a language."""

    functions: frozenset[str]
    classes: frozenset[str]
    namespaces: frozenset[str]
    bases: frozenset[str]
    imports: frozenset[str]
    calls: frozenset[str]
    # Whether qualified names start at a namespace rather than at the file.
    is_named_by_namespace: bool = False


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


GRAMMARS = {
    "rust": Grammar(
        functions=_set("function_item function_signature_item"),
        classes=_set("struct_item enum_item trait_item union_item impl_item"),
        namespaces=_set("mod_item"),
        bases=_set(""),
        imports=_set("use_declaration"),
        calls=_set("call_expression"),
    ),
    "c": Grammar(
        functions=_set("function_definition"),
        classes=_set("struct_specifier"),
        namespaces=_set(""),
        bases=_set(""),
        imports=_set("preproc_include"),
        calls=_set("call_expression"),
    ),
    "cpp": Grammar(
        functions=_set("function_definition"),
        classes=_set("class_specifier struct_specifier"),
        namespaces=_set("namespace_definition"),
        bases=_set("base_class_clause"),
        imports=_set("preproc_include"),
        calls=_set("call_expression new_expression"),
    ),
    "csharp": Grammar(
        functions=_set("method_declaration constructor_declaration local_function_statement"),
        classes=_set(
            "class_declaration interface_declaration struct_declaration enum_declaration "
            "record_declaration"
        ),
        namespaces=_set("namespace_declaration file_scoped_namespace_declaration"),
        bases=_set("base_list"),
        imports=_set("using_directive"),
        calls=_set("invocation_expression object_creation_expression"),
        is_named_by_namespace=True,
    ),
    "ruby": Grammar(
        functions=_set("method singleton_method"),
        classes=_set("class module"),
        namespaces=_set(""),
        bases=_set("superclass"),
        imports=_set(""),
        calls=_set("call"),
    ),
    "php": Grammar(
        functions=_set("function_definition method_declaration"),
        classes=_set("class_declaration interface_declaration trait_declaration enum_declaration"),
        namespaces=_set("namespace_definition"),
        bases=_set("base_clause class_interface_clause"),
        imports=_set("namespace_use_declaration"),
        calls=_set(
            "function_call_expression member_call_expression scoped_call_expression "
            "object_creation_expression"
        ),
        is_named_by_namespace=True,
    ),
}

_SELVES = {"self", "this", "$this", "Self", "static"}
_SUPERS = {"super", "base", "parent"}


class Called(NamedTuple):
    """The target of a call, as far as its form tells."""

    form: str
    owner: str
    name: str


def dotted(text: str) -> str:
    """Return a path of any language with dots."""
    plain = text.replace("::", ".").replace("\\", ".").replace("->", ".")
    return plain.partition("<")[0].strip(".").replace(" ", "")


def called(node: Node, text: str, function: str | None) -> Called | None:
    """Return the target of a call; `text` is the call up to its arguments."""
    kind = node.type
    if kind in {"object_creation_expression", "new_expression"}:
        name = dotted(text.removeprefix("new").strip())
        return Called("new", name, name.rpartition(".")[2]) if _is_path(name) else None
    path = dotted(text if function is None else function)
    if not _is_path(path):
        return None
    owner, _, name = path.rpartition(".")
    if not owner:
        return Called("name", "", name)
    if owner in _SELVES:
        return Called("self", "", name)
    if owner in _SUPERS:
        return Called("super", "", name)
    is_static = "::" in text or "\\" in text
    # Only a capitalized name denotes a type.
    if is_static or owner.rpartition(".")[2][:1].isupper():
        return Called("type", owner, name)
    return None


def _is_path(text: str) -> bool:
    return bool(text) and all(
        part.lstrip("$").rstrip("?!").isidentifier() for part in text.split(".")
    )
