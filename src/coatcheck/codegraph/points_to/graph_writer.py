"""Nodes and edges of a linked program."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from coatcheck.codegraph.graph import EdgeKind, GraphBuilder, NodeKind, Want
from coatcheck.codegraph.points_to.archive import Module
from coatcheck.codegraph.points_to.linker import LinkedProgram, Linker
from coatcheck.codegraph.summary import DefinitionSummary


def write_graph(
    linker: Linker, files: dict[str, int], want: frozenset[Want], builder: GraphBuilder
) -> None:
    """Link files and add the wanted parts to the graph; `files` are the nodes of the files."""
    _GraphWriter(linker.link(with_calls=Want.CALL in want), files, want, builder).write()


class _GraphWriter:
    def __init__(
        self,
        linked: LinkedProgram,
        files: dict[str, int],
        want: frozenset[Want],
        builder: GraphBuilder,
    ) -> None:
        self._linked = linked
        self._files = files
        self._want = want
        self._builder = builder
        # By definition: its node, and the definition around it.
        self._nodes = array("i", bytes(4 * linked.definitions))
        self._parents = array("i", bytes(4 * linked.definitions))
        self._modules = [module for module in linked.modules if module.summary is not None]

    def write(self) -> None:
        for module in self._modules:
            self._add_module(module)
        if Want.PARSE in self._want:
            self._write_definitions()
        if Want.DEPENDENCY in self._want:
            self._write_imports()
        if Want.CALL in self._want:
            self._write_calls()

    def _language(self, module: Module) -> str:
        return self._builder.graph.nodes[self._files[module.path]].language or ""

    def _add_module(self, module: Module) -> None:
        definitions = module.summary.load("definitions").definitions if module.summary else []
        with_definitions = bool(self._want & {Want.CALL, Want.PARSE})
        language = self._language(module)
        for index, definition in enumerate(definitions):
            number = module.definitions + index
            self._parents[number] = module.definitions + definition.parent
            if index == 0:
                self._nodes[number] = self._add_file(module, definition, language)
            elif with_definitions:
                self._nodes[number] = self._builder.add(
                    NodeKind(definition.kind),
                    f"{module.name}.{definition.qualified_name}",
                    name=definition.name,
                    file=module.path,
                    language=language,
                    line=definition.line,
                    end_line=definition.end_line,
                    signature=definition.signature,
                )

    def _add_file(self, module: Module, definition: DefinitionSummary, language: str) -> int:
        if not is_own_module(language):
            known = self._builder.package(module.name)
            if known is not None:
                return known
        return self._builder.add(
            NodeKind(definition.kind),
            module.name,
            name=module.name.rpartition(".")[2],
            file=module.path,
            language=language,
            line=definition.line,
            end_line=definition.end_line,
            signature=definition.signature,
        )

    def _write_definitions(self) -> None:
        nodes, builder = self._nodes, self._builder
        ends = [module.definitions for module in self._modules[1:]] + [self._linked.definitions]
        for module, end in zip(self._modules, ends, strict=True):
            start = module.definitions
            builder.connect(self._files[module.path], nodes[start], EdgeKind.DEFINES, 1)
            for number in range(start + 1, end):
                parent, line = self._parents[number], builder.graph.nodes[nodes[number]].line
                builder.connect(nodes[parent], nodes[number], EdgeKind.DEFINES, line)
        for cls in self._linked.classes:
            source = nodes[cls.definition]
            for parent_class in cls.parents:
                target = nodes[parent_class.definition]
                builder.connect(source, target, EdgeKind.INHERITS, cls.line)
            for path in cls.external_bases:
                target = builder.external(path, self._language(cls.module))
                builder.connect(source, target, EdgeKind.INHERITS, cls.line)

    def _write_imports(self) -> None:
        modules = self._linked.modules
        for (importer, target), line in self._linked.imported.items():
            if isinstance(target, str):
                found = self._builder.external(target, self._language(modules[importer]))
            elif modules[target].summary is not None:
                found = self._nodes[modules[target].definitions]
            else:
                continue  # a namespace package has no node
            source = self._nodes[modules[importer].definitions]
            self._builder.connect(source, found, EdgeKind.IMPORTS, line)

    def _write_calls(self) -> None:
        starts = [module.definitions for module in self._modules]
        for caller, target, line in self._linked.calls:
            if isinstance(target, int):
                found = self._nodes[target]
            else:
                module = self._modules[bisect_right(starts, caller) - 1]
                found = self._builder.external(target, self._language(module))
            self._builder.connect(self._nodes[caller], found, EdgeKind.CALLS, line)


def is_own_module(language: str) -> bool:
    """Tell whether each file is a module, rather than a part of a package."""
    return language not in {"java", "go"}
