"""Call sites: arguments, the values called so far, and the resulting call edges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Keywords = tuple[tuple[str | None, int], ...]


@dataclass(slots=True, eq=False)
class CallSite:
    """A call in the source, or one that the language makes implicitly.

    Positional arguments below 0 are `*` of the variable; a keyword None is `**`.
    """

    result: int
    positional: tuple[int, ...]
    keywords: Keywords
    caller: int  # the definition that runs the call
    line: int
    callee: int = 0  # the variable that is called; 0 for an implicit call
    # A declaration such as @property rather than a call.
    is_declaration: bool = False
    depth: int = 0  # how many partial calls led here
    container: Any = None  # the value and the container that the call creates
    inner: CallSite | None = None  # creates the pairs of `items`
    # None, one or a set: values, and methods as (value, name).
    _called: Any = None
    # None, one or a list: definitions, and external paths.
    targets: Any = None

    def clone(self, result: int) -> CallSite:
        """Return a new call with the same arguments and another result."""
        return CallSite(result, self.positional, self.keywords, self.caller, self.line)

    def mark_called(self, called: int | tuple[int, str]) -> bool:
        """Record that a value, or a method of one, is called here; tell whether that is new."""
        known = self._called
        if known is None:
            self._called = called
        elif known.__class__ is set:
            if called in known:
                return False
            known.add(called)
        elif known == called:
            return False
        else:
            self._called = {known, called}
        return True


class CallEdges:
    """The call sites that call something, in the order in which they were first resolved."""

    def __init__(self) -> None:
        self._sites: list[CallSite] = []

    def add(self, site: CallSite, target: int | str) -> None:
        """Record that a call reaches a definition, or an external path."""
        known = site.targets
        if known is None:
            self._sites.append(site)
            site.targets = target
        elif known.__class__ is list:
            if target not in known:
                known.append(target)
        elif known != target:
            site.targets = [known, target]

    def __iter__(self) -> Iterator[tuple[CallSite, int | str]]:
        for site in self._sites:
            targets = site.targets
            if targets.__class__ is list:
                for target in targets:
                    yield site, target
            else:
                yield site, targets
