"""The calls of the archive: what each is given, what it has called, what that means for the graph.

A call is a number. What it is given, as it is written, is in arrays, and is put together as a
`Site` while something is called there. What it has called so far, and what the graph shows of it,
is one number for most; several are a run (runs.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from coatcheck.surfaces.graphs.analysis.python.runs import Runs
from coatcheck.surfaces.graphs.analysis.python.words import Words

Keywords = tuple[tuple[str | None, int], ...]

# Instead of what a site has called: nothing; below it, the run of all that it has.
_NOTHING, _SEVERAL = -1, -2
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

    def __init__(self, words: Words) -> None:
        self._words = words
        self._written = array("i")
        # By turns how many are positional and how many have keywords, then both.
        self._arguments = array("i", [0, 0])
        self._applied = array("q")
        self._applied_runs = Runs("q")
        # A definition, or ~ of the number of a path; with others, in a run.
        self._targets = array("i")
        self._target_runs = Runs()
        self._several_targets: dict[int, int] = {}
        self.calling = array("i")  # those that call something, in the order that they came to it
        self.silent: set[int] = set()  # declarations rather than calls, as @property
        # How many calls that Python makes by itself led to it, where there are any.
        self.depth: dict[int, int] = {}
        self.made: dict[int, int] = {}  # the container that it makes, whatever it is called on
        self.inner: dict[int, int] = {}  # what makes the pairs of `items`

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
            arguments = self._arguments
            given = len(arguments)
            arguments.extend((len(positional), len(keywords), *positional))
            for name, place in keywords:
                arguments.extend((self._words[name], place))
        return self._add(result, runner, line, callee, given)

    def _add(self, result: int, runner: int, line: int, callee: int, given: int) -> int:
        self._written.frombytes(_WRITTEN.pack(result, runner, line, callee, given))
        self._applied.append(_NOTHING)
        self._targets.append(0)
        return len(self._targets) - 1

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
        _, runner, line, _, given = _WRITTEN.unpack_from(self._written, 20 * site.number)
        return site._replace(number=self._add(result, runner, line, 0, given), result=result)

    def at(self, number: int) -> Site:
        """Return a call by its number."""
        result, runner, line, _, given = _WRITTEN.unpack_from(self._written, 20 * number)
        if not given:
            return Site(number, result, (), (), runner, line)
        arguments = self._arguments
        start = given + 2
        end = start + arguments[given]
        keywords = self._keywords(end, arguments[given + 1]) if arguments[given + 1] else ()
        return Site(number, result, tuple(arguments[start:end]), keywords, runner, line)

    def _keywords(self, start: int, count: int) -> Keywords:
        words, arguments = self._words.at, self._arguments
        return tuple(
            (words[arguments[index]], arguments[index + 1])
            for index in range(start, start + 2 * count, 2)
        )

    def callee(self, number: int) -> int:
        """Return the place of what is called, 0 where it is not written."""
        return self._written[5 * number + 3]

    # --- what is called

    def applies(self, number: int, called: int) -> bool:
        """Note that a value is called; tell whether it was not before."""
        applied = self._applied[number]
        if applied == _NOTHING:
            self._applied[number] = called
        elif applied == called:
            return False
        elif applied >= 0:
            self._applied[number] = _SEVERAL - self._applied_runs.start(applied, called)
        else:
            run = _SEVERAL - applied
            if called in self._applied_runs.of(run):
                return False
            self._applied[number] = _SEVERAL - self._applied_runs.append(run, called)
        return True

    def applies_method(self, number: int, value: int, name: str) -> bool:
        """Note that a method of a value is called by its name; tell whether it was not before."""
        return self.applies(number, (self._words[name] + 1) << 32 | value)

    def edge(self, number: int, target: int | str) -> None:
        """Note that a call calls a definition, or something outside by its path."""
        called = target if isinstance(target, int) else ~self._words[target]
        before = self._targets[number]
        if not before:
            self.calling.append(number)
            self._targets[number] = called
            return
        several = self._several_targets.get(number)
        if several is None:
            if before != called:
                self._several_targets[number] = self._target_runs.start(before, called)
        elif called not in self._target_runs.of(several):
            self._several_targets[number] = self._target_runs.append(several, called)

    def edges(self) -> Iterator[tuple[int, int, int, int | str]]:
        """Yield, for each call that calls something: callee's place, runner, line, target."""
        words = self._words.at
        for number in self.calling:
            _, runner, line, callee, _ = _WRITTEN.unpack_from(self._written, 20 * number)
            several = self._several_targets.get(number)
            targets = (self._targets[number],) if several is None else self._target_runs.of(several)
            for target in targets:
                yield callee, runner, line, target if target > 0 else words[~target]

    def where(self, number: int) -> tuple[int, int]:
        """Return who runs a call, and its line."""
        return self._written[5 * number + 1], self._written[5 * number + 2]
