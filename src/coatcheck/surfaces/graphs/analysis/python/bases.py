"""The order in which Python looks along the bases of a class (C3)."""

from __future__ import annotations

from coatcheck.surfaces.graphs.analysis.python.program import LinkedClass

# Bases that bring no methods which anybody calls by name.
EMPTY_BASES = frozenset({
    "<builtin>.object", "abc.ABC", "typing.Generic", "typing.Protocol",
    "typing_extensions.Protocol", "typing_extensions.Generic",
})  # fmt: skip


def order(cls: LinkedClass) -> None:
    """Work out a class's order, and that of the bases it has, each before those that need it."""
    path = [cls]
    while path:
        one = path[-1]
        missing = [
            parent for parent in one.parents if not parent.line_of_bases and parent not in path
        ]
        if missing:
            path.append(missing[0])
            continue
        _order_one(one)
        path.pop()


def _order_one(cls: LinkedClass) -> None:
    lines = [list(parent.line_of_bases) for parent in cls.parents if parent.line_of_bases]
    merged = _merge([*lines, list(cls.parents)])
    cls.line_of_bases = (cls, *(one for one in merged if one is not cls))
    outside = [path for one in cls.line_of_bases for path in one.outside]
    cls.all_outside = tuple(path for path in dict.fromkeys(outside) if path not in EMPTY_BASES)


def _merge(lines: list[list[LinkedClass]]) -> list[LinkedClass]:
    found: list[LinkedClass] = []
    while lines := [line for line in lines if line]:
        for line in lines:
            head = line[0]
            if not any(head in other[1:] for other in lines):
                break
        else:
            head = lines[0][0]  # no order holds; Python refuses such a class
        found.append(head)
        lines = [[one for one in line if one is not head] for line in lines]
    return found
