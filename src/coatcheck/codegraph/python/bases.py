"""The order in which Python looks along the bases of a class (C3).

An order has at most `LONGEST_ORDER` classes: with all of them, a chain of n classes would take time
and memory in proportion to n squared. No codebase that people write comes near it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from coatcheck.codegraph.python.program import LinkedClass

# Bases that bring no methods which anybody calls by name.
EMPTY_BASES = frozenset({
    "<builtin>.object", "abc.ABC", "typing.Generic", "typing.Protocol",
    "typing_extensions.Protocol", "typing_extensions.Generic",
})  # fmt: skip
LONGEST_ORDER = 100


def order(cls: LinkedClass) -> None:
    """Work out a class's order, and that of the bases it has, each before those that need it."""
    path = [(cls, iter(cls.parents))]
    on_path = {cls.index}
    while path:
        one, parents = path[-1]
        missing = next(
            (each for each in parents if not each.line_of_bases and each.index not in on_path), None
        )
        if missing is not None:
            path.append((missing, iter(missing.parents)))
            on_path.add(missing.index)
            continue
        _order_one(one)
        path.pop()
        on_path.discard(one.index)


def _order_one(cls: LinkedClass) -> None:
    parents = cls.parents[:LONGEST_ORDER]
    lines = [parent.line_of_bases for parent in parents if parent.line_of_bases]
    found: list[LinkedClass] = [cls]
    for one in _merge([*lines, parents]):
        if one is not cls:
            found.append(one)
        if len(found) == LONGEST_ORDER:
            break
    cls.line_of_bases = tuple(found)
    outside = dict.fromkeys(path for one in found for path in one.outside)
    names = (path for path in outside if path not in EMPTY_BASES)
    cls.all_outside = tuple(name for name, _ in zip(names, range(LONGEST_ORDER), strict=False))


def _merge(lines: Iterable[Iterable[LinkedClass]]) -> Iterator[LinkedClass]:
    left = [deque(line) for line in lines]
    # How many lines have a class behind their first.
    behind = Counter(one.index for line in left for one in line)
    for line in left:
        if line:
            behind[line[0].index] -= 1
    while left := [line for line in left if line]:
        heads = (line[0] for line in left if not behind[line[0].index])
        # No order holds if each head is behind another; Python refuses such a class.
        head = next(heads, left[0][0])
        yield head
        for line in left:
            if head in line:
                _drop(head, line, behind)


def _drop(head: LinkedClass, line: deque[LinkedClass], behind: Counter[int]) -> None:
    if line[0] is head:
        line.popleft()
        if line:
            behind[line[0].index] -= 1
    else:
        line.remove(head)
        behind[head.index] -= 1
