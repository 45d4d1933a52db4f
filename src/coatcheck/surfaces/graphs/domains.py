"""Domains: the cohesive parts of a codebase, each with a name.

Files that use each other are grouped (communities.py). A file that neither uses nor is used joins
the files in its folder. A domain is named after the folder that all of its files share, or most of
them. If two domains would have the same name, each name also includes the module that is used most.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from coatcheck.codegraph import Graph
from coatcheck.surfaces.graphs.communities import communities
from coatcheck.surfaces.graphs.module_graph import ModuleGraph, module_graph

ROOT = "root"
# A folder names a domain if it contains this share of the domain's files.
_MOST = 0.6


@dataclass(frozen=True)
class Domain:
    """Files that belong together, and how often they use files of other domains."""

    id: str
    name: str
    files: tuple[str, ...]
    modules: tuple[str, ...]
    uses: tuple[tuple[str, int], ...]  # by id of the other domain

    def as_json(self) -> dict[str, Any]:
        """Return the domain as JSON for the API."""
        return {
            "id": self.id,
            "name": self.name,
            "files": self.files,
            "modules": self.modules,
            "uses": [{"domain": domain, "count": count} for domain, count in self.uses],
        }


def domains_of(graph: Graph) -> list[Domain]:
    """Group the files of a codebase into domains, largest first."""
    nodes = ({"id": n.id, "kind": n.kind, "file": n.file, "qualified_name": n.qualified_name}
             for n in graph.nodes)  # fmt: skip
    edges = ({"source": e.source, "target": e.target, "kind": e.kind} for e in graph.edges)
    modules = module_graph(nodes, edges)
    groups = _grouped(modules)
    place = {file: number for number, group in enumerate(groups) for file in group}
    uses: dict[int, Counter[int]] = defaultdict(Counter)
    for (one, other), count in modules.uses.items():
        if place[one] != place[other]:
            uses[place[one]][place[other]] += count
    names = _names(groups, modules)
    return [
        Domain(
            id=f"domain-{number + 1}",
            name=names[number],
            files=tuple(group),
            modules=tuple(modules.names[file] for file in group),
            uses=tuple((f"domain-{to + 1}", count) for to, count in sorted(uses[number].items())),
        )
        for number, group in enumerate(groups)
    ]


def renamed(domains: Sequence[Domain], names: Sequence[str]) -> list[Domain]:
    """Return domains with new names; an empty name changes nothing."""
    return [
        replace(domain, name=name or domain.name)
        for domain, name in zip(domains, names, strict=True)
    ]


def _grouped(modules: ModuleGraph) -> list[list[str]]:
    found = communities(modules.files, modules.uses)
    groups = [group for group in found if len(group) > 1]
    by_folder: dict[str, Counter[int]] = defaultdict(Counter)
    for number, group in enumerate(groups):
        for file in group:
            by_folder[_folder(file)][number] += 1
    alone: dict[str, list[str]] = defaultdict(list)
    for file in sorted(group[0] for group in found if len(group) == 1):
        beside = by_folder.get(_folder(file))
        if beside:
            groups[min(beside, key=lambda number: (-beside[number], number))].append(file)
        else:
            alone[_folder(file)].append(file)
    groups += alone.values()
    return sorted((sorted(group) for group in groups), key=lambda group: (-len(group), group))


def _names(groups: list[list[str]], modules: ModuleGraph) -> list[str]:
    shared = _common_folder(modules.files)
    plain = [_folder_name(group, shared) for group in groups]
    times = Counter(plain)
    used = Counter(other for _, other in modules.uses.elements())
    taken: set[str] = set()
    names = []
    for group, folder in zip(groups, plain, strict=True):
        name = folder
        if times[folder] > 1:
            central = min(group, key=lambda file: (-used[file], file))
            name = f"{folder}: {PurePosixPath(central).stem}"
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name} {number}", number + 1
        taken.add(unique)
        names.append(unique)
    return names


def _folder_name(files: Sequence[str], shared: str) -> str:
    common = _common_folder(files)
    if len(common) <= len(shared):
        # The shared folder is that of the whole codebase: use the one that most files are in.
        below = Counter(_next_folder(file, shared) for file in files)
        folder, count = min(below.items(), key=lambda item: (-item[1], item[0]))
        common = folder if count >= _MOST * len(files) else common
    name = common.removeprefix(shared).strip("/") or common.rpartition("/")[2]
    return name or ROOT


def _next_folder(file: str, shared: str) -> str:
    folders = PurePosixPath(file).parent.parts
    return "/".join(folders[: len(PurePosixPath(shared).parts) + 1]) if folders else ""


def _common_folder(files: Sequence[str]) -> str:
    folders = [PurePosixPath(file).parent.parts for file in files]
    common = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "/".join(common)


def _folder(file: str) -> str:
    return file.rpartition("/")[0]
