"""The calls of the archive: what each is given, what it has called, what that means for the graph.

A call is a number. What it is given, as it is written, is in columns (disk/), and is put together
as a `Site` while something is called there. What it has called so far, and what the graph shows of
it, is one number for most; several are a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from coatcheck.codegraph.disk.column import Disk
from coatcheck.codegraph.disk.runs import IntLists
from coatcheck.codegraph.disk.tables import Keys, Table
from coatcheck.codegraph.disk.words import Words

Keywords = tuple[tuple[str | None, int], ...]

# Instead of what a site has called: nothing; below it, the run of all that it has.
_NOTHING, _SEVERAL = -1, -2
# There are fewer words than this.
_LOWEST = -(1 << 30)
# Result, runner, line, the place of what is called where it is written, arguments.
_WRITTEN = Struct("5i")


class Site(NamedTuple):
    """A call as it is written, or one that Python makes without it being written as one."""

    number: int
    result: int
    positional: tuple[int, ...]
    keywords: Keywords
    runner: int
    line: int


class Sites:
    """Knows all calls."""

    def __init__(self, disk: Disk, words: Words) -> None:
        self._words = words
        self._written = disk.column()
        # By turns how many are positional and how many have keywords, then both.
        self._arguments = disk.column("i", 2)
        self._applied = disk.column("q")
        self._applied_runs = IntLists(disk, "q")
        # A definition, or ~ of the number of a path; several are a run, below _LOWEST.
        self._targets = disk.column()
        self._target_runs = IntLists(disk)
        # Those that call something, in the order that they came to it.
        self._calling = disk.column()
        self._silent = Keys(disk, 1)
        # How many calls that Python makes by itself led to it, where there are any.
        self.depth = Table(disk, 1)
        self.made = Table(disk, 1)  # the container that it makes, whatever it is called on
        self.inner = Table(disk, 1)  # what makes the pairs of `items`

    def add(
        self,
        result: int,
        positional: tuple[int, ...],
        keywords: Keywords,
        runner: int,
        line: int,
        callee: int = 0,
    ) -> int:
        """Note a call and return its number."""
        given = 0
        if positional or keywords:
            written = [len(positional), len(keywords), *positional]
            for name, place in keywords:
                written += (self._words[name], place)
            given = self._arguments.extend(written)
        return self._add(result, runner, line, callee, given)

    def _add(self, result: int, runner: int, line: int, callee: int, given: int) -> int:
        start = self._written.add(5)
        _WRITTEN.pack_into(self._written.numbers, 4 * start, result, runner, line, callee, given)
        self._applied.append(_NOTHING)
        self._targets.append(0)
        return self._targets.count - 1

    def new(
        self,
        result: int,
        positional: tuple[int, ...],
        keywords: Keywords,
        runner: int,
        line: int,
        callee: int = 0,
    ) -> Site:
        """Note a call that is made right now."""
        number = self.add(result, positional, keywords, runner, line, callee)
        return Site(number, result, positional, keywords, runner, line)

    def like(self, site: Site, result: int) -> Site:
        """Note a call that is given what another one is."""
        _, runner, line, _, given = _WRITTEN.unpack_from(self._written.numbers, 20 * site.number)
        return site._replace(number=self._add(result, runner, line, 0, given), result=result)

    def at(self, number: int) -> Site:
        """Return a call by its number."""
        result, runner, line, _, given = _WRITTEN.unpack_from(self._written.numbers, 20 * number)
        if not given:
            return Site(number, result, (), (), runner, line)
        arguments = self._arguments.numbers
        start = given + 2
        end = start + arguments[given]
        keywords = self._keywords(end, arguments[given + 1]) if arguments[given + 1] else ()
        return Site(number, result, tuple(arguments[start:end]), keywords, runner, line)

    def _keywords(self, start: int, count: int) -> Keywords:
        words, arguments = self._words.at, self._arguments.numbers
        return tuple(
            (words[arguments[index]], arguments[index + 1])
            for index in range(start, start + 2 * count, 2)
        )

    def callee(self, number: int) -> int:
        """Return the place of what is called, 0 where it is not written."""
        return self._written.numbers[5 * number + 3]

    # --- declarations

    def silence(self, number: int) -> None:
        """Note that a call is a declaration rather than a call, as @property."""
        self._silent.add((number,))

    def is_silent(self, number: int) -> bool:
        """Tell whether a call is a declaration."""
        return self._silent.find((number,)) > 0

    # --- what is called

    def applies(self, number: int, called: int) -> bool:
        """Note that a value is called; tell whether it was not before."""
        applied = self._applied.numbers[number]
        if applied == called:
            return False
        if applied == _NOTHING:
            self._applied.numbers[number] = called
        elif applied >= 0:
            run = self._applied_runs.start(applied, called)
            self._applied.numbers[number] = _SEVERAL - run
        else:
            run = _SEVERAL - applied
            if called in self._applied_runs.of(run):
                return False
            self._applied.numbers[number] = _SEVERAL - self._applied_runs.append(run, called)
        return True

    def applies_method(self, number: int, value: int, name: str) -> bool:
        """Note that a method of a value is called by its name; tell whether it was not before."""
        return self.applies(number, (self._words[name] + 1) << 32 | value)

    def edge(self, number: int, target: int | str) -> None:
        """Note that a call calls a definition, or something outside by its path."""
        called = target if isinstance(target, int) else ~self._words[target]
        before = self._targets.numbers[number]
        if not before:
            self._calling.append(number)
            self._targets.numbers[number] = called
        elif before > _LOWEST:
            if before != called:
                run = self._target_runs.start(before, called)
                self._targets.numbers[number] = _LOWEST - run
        elif called not in self._target_runs.of(_LOWEST - before):
            run = self._target_runs.append(_LOWEST - before, called)
            self._targets.numbers[number] = _LOWEST - run

    def edges(self) -> Iterator[tuple[int, int, int, int | str]]:
        """Yield, for each call that calls something: callee's place, runner, line, target."""
        words, written = self._words.at, self._written.numbers
        for number in self._calling.numbers[: self._calling.count]:
            _, runner, line, callee, _ = _WRITTEN.unpack_from(written, 20 * number)
            called = self._targets.numbers[number]
            several = called <= _LOWEST
            for target in self._target_runs.of(_LOWEST - called) if several else (called,):
                yield callee, runner, line, target if target > 0 else words[~target]

    def where(self, number: int) -> tuple[int, int]:
        """Return who runs a call, and its line."""
        runner, line = self._written.numbers[5 * number + 1 : 5 * number + 3]
        return runner, line
