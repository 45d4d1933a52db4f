"""From linked files to nodes and edges: Python, and JavaScript, which is linked the same way."""

from __future__ import annotations

from bisect import bisect_right

from coatcheck.surfaces.graphs.analysis.graph import EdgeKind, GraphBuilder, NodeKind, Want
from coatcheck.surfaces.graphs.analysis.python.archive import Module
from coatcheck.surfaces.graphs.analysis.python.linking import Linked, Linker
from coatcheck.surfaces.graphs.analysis.python.summary import PythonSummary


def draw(
    linker: Linker, languages: dict[str, str], want: frozenset[Want], builder: GraphBuilder
) -> None:
    """Link the files and add what is wanted to the graph."""
    linked = linker.link(with_calls=Want.CALL in want)
    with_definitions = bool(want & {Want.CALL, Want.PARSE})
    ids: dict[int, str] = {}
    modules: dict[int, str] = {}
    for module in linked.modules:
        if module.summary is not None:
            _add_module(module, module.summary, with_definitions, builder, ids, languages)
            modules[module.index] = ids[module.definitions]
    if Want.PARSE in want:
        _draw_definitions(linked, builder, ids, languages)
    if Want.DEPENDENCY in want:
        _draw_imports(linked, builder, modules, languages)
    if Want.CALL in want:
        _draw_calls(linked, builder, ids, languages)


def _add_module(
    module: Module,
    summary: PythonSummary,
    with_definitions: bool,
    builder: GraphBuilder,
    ids: dict[int, str],
    languages: dict[str, str],
) -> None:
    for index, definition in enumerate(summary.definitions):
        is_module = index == 0
        if not is_module and not with_definitions:
            break
        qualified = module.name if is_module else f"{module.name}.{definition.qualified_name}"
        if is_module and not is_own_module(languages[module.path]):
            known = builder.package(qualified)
            if known is not None:
                ids[module.definitions] = known
                continue
        ids[module.definitions + index] = builder.add(
            NodeKind(definition.kind),
            qualified,
            name=module.name.rpartition(".")[2] if is_module else definition.name,
            file=module.path,
            language=languages[module.path],
            line=definition.line,
            end_line=definition.end_line,
            signature=definition.signature,
        )


def is_own_module(language: str) -> bool:
    """Tell whether each file is a module of its own, rather than a part of a package."""
    return language not in {"java", "go"}


def _draw_definitions(
    linked: Linked, builder: GraphBuilder, ids: dict[int, str], languages: dict[str, str]
) -> None:
    for module in linked.modules:
        if module.summary is None:
            continue
        start = module.definitions
        builder.connect(module.path, ids[start], EdgeKind.DEFINES, 1)
        for index, definition in enumerate(module.summary.definitions):
            if index:
                parent = ids[start + definition.parent]
                builder.connect(parent, ids[start + index], EdgeKind.DEFINES, definition.line)
    for cls in linked.classes:
        for parent_class in cls.parents:
            target = ids[parent_class.definition]
            builder.connect(ids[cls.definition], target, EdgeKind.INHERITS, cls.line)
        for path in cls.outside:
            target = builder.external(path, languages[cls.module.path])
            builder.connect(ids[cls.definition], target, EdgeKind.INHERITS, cls.line)


def _draw_imports(
    linked: Linked, builder: GraphBuilder, modules: dict[int, str], languages: dict[str, str]
) -> None:
    for (importer, target), line in linked.imported.items():
        if isinstance(target, str):
            language = languages[linked.modules[importer].path]
            found = builder.external(target, language)
        elif target in modules:
            found = modules[target]
        else:
            continue  # a folder without a file of its own
        builder.connect(modules[importer], found, EdgeKind.IMPORTS, line)


def _draw_calls(
    linked: Linked, builder: GraphBuilder, ids: dict[int, str], languages: dict[str, str]
) -> None:
    files = [module for module in linked.modules if module.summary is not None]
    starts = [module.definitions for module in files]
    for (runner, target), line in linked.calls.items():
        if isinstance(target, int):
            found = ids[target]
        else:
            path = files[bisect_right(starts, runner) - 1].path
            found = builder.external(target, languages[path])
        builder.connect(ids[runner], found, EdgeKind.CALLS, line)
