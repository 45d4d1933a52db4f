"""The method resolution order of a class (C3).

An order has at most `MAX_MRO` classes: otherwise a chain of n classes would take time and memory
proportional to n squared. No code written by people comes near the limit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

from coatcheck.codegraph.points_to.program import LinkedClass

# Bases without methods that anybody calls by name.
EMPTY_BASES = frozenset({
    "<builtin>.object", "abc.ABC", "typing.Generic", "typing.Protocol",
    "typing_extensions.Protocol", "typing_extensions.Generic",
})  # fmt: skip
MAX_MRO = 100


def order(cls: LinkedClass) -> None:
    """Compute the order of a class, after those of its bases."""
    path = [(cls, iter(cls.parents))]
    on_path = {cls.index}
    while path:
        one, parents = path[-1]
        missing = next(
            (each for each in parents if not each.mro and each.index not in on_path), None
        )
        if missing is not None:
            path.append((missing, iter(missing.parents)))
            on_path.add(missing.index)
            continue
        _order_one(one)
        path.pop()
        on_path.discard(one.index)


def _order_one(cls: LinkedClass) -> None:
    parents = cls.parents[:MAX_MRO]
    sequences = [parent.mro for parent in parents if parent.mro]
    found: list[LinkedClass] = [cls]
    for one in _merge([*sequences, parents]):
        if one is not cls:
            found.append(one)
        if len(found) == MAX_MRO:
            break
    cls.mro = tuple(found)
    external = dict.fromkeys(path for one in found for path in one.external_bases)
    names = (path for path in external if path not in EMPTY_BASES)
    cls.all_external_bases = tuple(name for name, _ in zip(names, range(MAX_MRO), strict=False))


def _merge(sequences: Iterable[Iterable[LinkedClass]]) -> Iterator[LinkedClass]:
    left = [deque(sequence) for sequence in sequences]
    # By class: in how many sequences it comes after the head.
    behind = Counter(one.index for sequence in left for one in sequence)
    for sequence in left:
        if sequence:
            behind[sequence[0].index] -= 1
    while left := [sequence for sequence in left if sequence]:
        heads = (sequence[0] for sequence in left if not behind[sequence[0].index])
        # If each head is behind another, there is no consistent order; Python rejects such a class.
        head = next(heads, left[0][0])
        yield head
        for sequence in left:
            if head in sequence:
                _drop(head, sequence, behind)


def _drop(head: LinkedClass, sequence: deque[LinkedClass], behind: Counter[int]) -> None:
    if sequence[0] is head:
        sequence.popleft()
        if sequence:
            behind[sequence[0].index] -= 1
    else:
        sequence.remove(head)
        behind[head.index] -= 1
