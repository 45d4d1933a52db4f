"""Which parts of a codebase belong together, and what they are called."""

from __future__ import annotations

import itertools
import random

import pytest

from coatcheck.codegraph import Edge, EdgeKind, Graph, Node, NodeKind
from coatcheck.surfaces.graphs.communities import communities
from coatcheck.surfaces.graphs.domains import domains_of


def graph_of(files: list[str], uses: list[tuple[str, str]]) -> Graph:
    nodes = [Node(f, NodeKind.MODULE, f, f.removesuffix(".py").replace("/", "."), f) for f in files]
    outside = Node("os", NodeKind.EXTERNAL, "os", "os")
    edges = [Edge(one, other, EdgeKind.IMPORTS, 1) for one, other in uses]
    return Graph([*nodes, outside], [*edges, Edge(files[0], "os", EdgeKind.IMPORTS, 1)])


def among(files: list[str]) -> list[tuple[str, str]]:
    return list(itertools.combinations(files, 2))


CART = ["shop/cart/items.py", "shop/cart/prices.py", "shop/cart/total.py"]
USERS = ["shop/users/login.py", "shop/users/names.py", "shop/users/keys.py"]


def test_what_uses_each_other_is_a_domain_named_for_its_folder() -> None:
    uses = [*among(CART), *among(USERS), (CART[0], USERS[0])]
    first, second = domains_of(graph_of([*CART, *USERS], uses))
    assert (first.name, first.files) == ("cart", tuple(sorted(CART)))
    assert (second.name, second.files) == ("users", tuple(sorted(USERS)))
    assert first.modules == ("shop.cart.items", "shop.cart.prices", "shop.cart.total")
    assert (first.uses, second.uses) == ((("domain-2", 1),), ())


def test_a_file_alone_goes_with_those_beside_it() -> None:
    files = [*CART, *USERS, "shop/cart/README.py", "tools/one.py", "tools/two.py", "setup.py"]
    found = {each.name: each.files for each in domains_of(graph_of(files, among(CART)))}
    assert "shop/cart/README.py" in found["shop/cart"]
    assert found["tools"] == ("tools/one.py", "tools/two.py")
    assert found["root"] == ("setup.py",)


def test_two_of_one_folder_are_told_apart_by_what_is_used_most() -> None:
    one = [f"lib/{name}.py" for name in ("a", "b", "c", "core")]
    two = [f"lib/{name}.py" for name in ("x", "y", "z", "wire")]
    uses = [(file, one[-1]) for file in one[:-1]] + [(file, two[-1]) for file in two[:-1]]
    names = [each.name for each in domains_of(graph_of([*one, *two], uses))]
    assert names == ["lib: core", "lib: wire"]


def test_nothing_has_no_domains() -> None:
    assert domains_of(Graph()) == []


def test_names_are_not_given_twice() -> None:
    files = [f"p/{letter}{number}/core.py" for letter in "ab" for number in range(2)]
    files += [f"p/{letter}{number}/x.py" for letter in "ab" for number in range(2)]
    uses = [(f"p/{one}/x.py", f"p/{other}/core.py") for one, other in (("a0", "b1"), ("a1", "b0"))]
    uses += [(f"p/{one}/x.py", f"p/{other}/core.py") for one, other in (("b1", "a0"), ("b0", "a1"))]
    names = [each.name for each in domains_of(graph_of(files, uses))]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("seed", range(5))
def test_groups_that_were_planted_are_found(seed: int) -> None:
    chance = random.Random(seed)
    groups = [[f"{group}-{number}" for number in range(15)] for group in range(6)]
    nodes = [node for group in groups for node in group]
    weights = {
        pair: 1.0
        for pair in itertools.combinations(nodes, 2)
        if chance.random() < (0.6 if pair[0][0] == pair[1][0] else 0.01)
    }
    found = communities(nodes, weights)
    assert sorted(map(sorted, found)) == sorted(map(sorted, groups))
    assert communities(nodes, weights) == found


def test_a_chain_without_end_does_not_hurt() -> None:
    nodes = list(range(20_000))
    weights = {(one, one + 1): 1.0 for one in nodes[:-1]}
    found = communities(nodes, weights)
    assert sorted(node for group in found for node in group) == nodes
