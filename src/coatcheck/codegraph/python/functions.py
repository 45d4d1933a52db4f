"""The functions of the archive: how each takes arguments and what becomes of them.

They lie in a column, and each is put together while it is called.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.lately import Lately
from coatcheck.codegraph.disk.words import Words

Named = tuple[tuple[str, int], ...]
_FIXED = 11
_LISTS = 5


@dataclass(slots=True, eq=False)
class LinkedFunction:
    """A function; its places are those of the whole archive."""

    index: int
    definition: int
    name: str
    line: int
    rest: int
    keywords: int
    result: int
    yields: int
    is_async: bool
    owner: int
    rest_container: int
    keywords_container: int
    positional: Named
    keyword_only: Named
    defaults: Named
    passes: tuple[int, ...]
    keeps: tuple[tuple[str, str], ...]
    _by_name: dict[str, int] | None = None

    @property
    def by_name(self) -> dict[str, int]:
        """The parameters that can be named; few functions are asked for them."""
        if self._by_name is None:
            self._by_name = dict(self.positional + self.keyword_only)
        return self._by_name


class Functions(Lately[int, LinkedFunction]):
    """All functions, by number."""

    most = 2_048

    def __init__(self, disk: Disk, words: Words) -> None:
        super().__init__()
        self._words = words
        self._starts = disk.column()
        self._numbers = disk.column()

    @property
    def count(self) -> int:
        """How many there are."""
        return self._starts.count

    def add(self, function: LinkedFunction) -> None:
        """Add the function that has the next number."""
        words = self._words
        lists = (
            _flat(words, function.positional),
            _flat(words, function.keyword_only),
            _flat(words, function.defaults),
            list(function.passes),
            [words[word] for pair in function.keeps for word in pair],
        )
        written = (
            function.definition,
            words[function.name],
            function.line,
            function.rest,
            function.keywords,
            function.result,
            function.yields,
            function.is_async,
            function.owner,
            function.rest_container,
            function.keywords_container,
            *(len(numbers) for numbers in lists),
            *(number for numbers in lists for number in numbers),
        )
        self._starts.append(self._numbers.extend(written))

    def read(self, index: int) -> LinkedFunction:
        """Put a function together."""
        numbers, words = self._numbers.numbers, self._words.at
        start = self._starts.numbers[index]
        fixed = numbers[start : start + _FIXED + _LISTS].tolist()
        definition, name, line, rest, keywords, result, yields, is_async, owner, first, second = (
            fixed[:_FIXED]
        )
        lists = []
        start += _FIXED + _LISTS
        for count in fixed[_FIXED:]:
            lists.append(numbers[start : start + count].tolist())
            start += count
        kept = [words[word] for word in lists[4]]
        return LinkedFunction(
            index,
            definition,
            words[name],
            line,
            rest,
            keywords,
            result,
            yields,
            bool(is_async),
            owner,
            first,
            second,
            _named(words, lists[0]),
            _named(words, lists[1]),
            _named(words, lists[2]),
            tuple(lists[3]),
            tuple(zip(kept[::2], kept[1::2], strict=True)),
        )


def _named(words: Lately[int, Any], flat: list[int]) -> Named:
    return tuple(zip([words[word] for word in flat[::2]], flat[1::2], strict=True)) if flat else ()


def _flat(words: Words, named: Named) -> list[int]:
    return [number for name, place in named for number in (words[name], place)]
