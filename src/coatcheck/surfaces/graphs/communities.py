"""Communities: groups of nodes with more edges among themselves than to the rest, by modularity.

The Louvain method: each node moves to the neighboring community with the largest gain, until none
moves. Then the communities become the nodes of a smaller graph, and the method starts over. Nodes
are visited in input order, and of equal gains the first wins, so the same graph always has the same
communities.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Weights = list[dict[int, float]]

# The most rounds of moves. Modularity rises in each, but hardly after the first few.
_ROUNDS = 20


def communities(
    nodes: Sequence[Node], weights: Mapping[tuple[Node, Node], float]
) -> list[list[Node]]:
    """Group nodes by the edges between them, largest group first. Direction does not matter, and a
    node without edges is a group of its own.
    """
    places = {node: place for place, node in enumerate(nodes)}
    links: Weights = [{} for _ in nodes]
    for (one, other), weight in weights.items():
        if one != other:
            for here, there in ((one, other), (other, one)):
                known = links[places[here]]
                known[places[there]] = known.get(places[there], 0.0) + weight
    groups = [[place] for place in range(len(nodes))]
    within = [0.0] * len(nodes)
    while True:
        home = _settle(links, within)
        if len(set(home)) == len(links):
            break
        groups, links, within = _merged(groups, links, within, home)
    found = [[nodes[place] for place in sorted(group)] for group in groups]
    return sorted(found, key=lambda group: (-len(group), places[group[0]]))


def _settle(links: Weights, within: list[float]) -> list[int]:
    """Return the community of each node once no move improves modularity."""
    home = list(range(len(links)))
    degree = [sum(known.values()) + 2 * within[node] for node, known in enumerate(links)]
    held = degree.copy()
    total = sum(degree)
    if not total:
        return home
    for _ in range(_ROUNDS):
        moved = False
        for node, known in enumerate(links):
            if not known:
                continue
            to: dict[int, float] = defaultdict(float)
            to[home[node]] = 0.0
            for other, weight in known.items():
                to[home[other]] += weight
            held[home[node]] -= degree[node]
            best, most = home[node], to[home[node]] - held[home[node]] * degree[node] / total
            for community, weight in to.items():
                gain = weight - held[community] * degree[node] / total
                if gain > most + 1e-9:
                    best, most = community, gain
            held[best] += degree[node]
            moved = moved or best != home[node]
            home[node] = best
        if not moved:
            break
    return home


def _merged(
    groups: list[list[int]], links: Weights, within: list[float], home: list[int]
) -> tuple[list[list[int]], Weights, list[float]]:
    numbers: dict[int, int] = {}
    for community in home:
        numbers.setdefault(community, len(numbers))
    new_groups: list[list[int]] = [[] for _ in numbers]
    new_links: Weights = [{} for _ in numbers]
    new_within = [0.0] * len(numbers)
    for node, known in enumerate(links):
        here = numbers[home[node]]
        new_groups[here] += groups[node]
        new_within[here] += within[node]
        for other, weight in known.items():
            there = numbers[home[other]]
            if here == there:
                new_within[here] += weight / 2
            else:
                new_links[here][there] = new_links[here].get(there, 0.0) + weight
    return new_groups, new_links, new_within
