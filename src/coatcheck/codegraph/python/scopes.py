"""Variables of one scope while its code is read, in the order it would run.

`versions` says which place a name stands for *here*; `assigned` holds every place it ever stands
for, which is what other scopes see of it. After `mark`, a branch is read, `take` returns what it
changed and puts everything back, and `merge` joins the ends of the branches. A name that is read in
a loop stands for what it was before the loop and for whatever the loop assigns to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coatcheck.codegraph.python.summary import Place

Changes = dict[str, Place]


class Loop:
    """A loop that is being read."""

    def __init__(self, start: int) -> None:
        self.start = start  # in the scope's log
        self.joins: list[tuple[str, Place]] = []


class NameScope:
    """A module, class or function; comprehensions belong to the scope they stand in."""

    def __init__(self, kind: str, parent: NameScope | None, definition: int, runner: int) -> None:
        self.kind = kind
        self.parent = parent
        self.definition = definition
        self.runner = runner
        self.versions: dict[str, tuple[Place, int]] = {}
        self.assigned: dict[str, list[Place]] = {}
        self.seen_outside: dict[str, Place] = {}
        self.pending: dict[str, Place] = {}
        self.declared: dict[str, NameScope] = {}  # global and nonlocal
        self.loops: list[Loop] = []
        # The variables of the comprehensions around what is read, and of those around a lambda.
        self.local_names: dict[str, Place] = {}
        self.captured: dict[str, Place] = {}
        self.is_binding_local = False
        self.ended = False  # nothing after this point is reached
        self.is_outline = False  # what its names stand for matters to nobody
        self.lambdas = 0
        self.owner = -1  # the class that is read, or that the function stands in
        self.first_parameter: Place = 0
        self.function = -1
        self._undo: list[tuple[str, tuple[Place, int] | None]] = []
        self._log: list[tuple[str, Place]] = []

    def bind(self, name: str, place: Place) -> None:
        """Let a name stand for a place from here on."""
        self._undo.append((name, self.versions.get(name)))
        self.versions[name] = (place, len(self.loops))
        self._log.append((name, place))

    @property
    def bound(self) -> int:
        """How often a name was bound, for `bound_since`."""
        return len(self._log)

    def bound_since(self, before: int) -> dict[str, Place]:
        """Return the names that were bound since, with what each was bound to last."""
        return dict(self._log[before:])

    def assign(self, name: str, place: Place) -> None:
        """Assign to a name."""
        if self.is_binding_local:
            self.local_names[name] = place
            self.bind(name, place)
            return
        scope = self.declared.get(name)
        if scope is not None:
            scope.assigned.setdefault(name, []).append(place)
            return
        self.assigned.setdefault(name, []).append(place)
        self.bind(name, place)

    def current(
        self, name: str, new_place: Callable[[], Place], copy: Callable[[Place, Place], None]
    ) -> Place | None:
        """Return what a name stands for here; None where this scope has not assigned it yet."""
        version = self.versions.get(name)
        if version is None:
            return None
        place, depth = version
        if place and depth < len(self.loops):
            for loop in self.loops[depth:]:
                join = new_place()
                copy(place, join)
                loop.joins.append((name, join))
                place = join
            self._undo.append((name, version))
            self.versions[name] = (place, len(self.loops))
        return place

    # --- branches

    def mark(self) -> int:
        """Begin a branch."""
        return len(self._undo)

    def take(self, mark: int) -> Changes | None:
        """End a branch: return what it changed (None if its end is not reached) and undo it."""
        changes = {name: self.versions[name][0] for name, _ in self._undo[mark:]}
        while len(self._undo) > mark:
            name, before = self._undo.pop()
            if before is None:
                self.versions.pop(name, None)
            else:
                self.versions[name] = before
        ended, self.ended = self.ended, False
        return None if ended else changes

    def merge(self, ends: Sequence[Changes | None], join: Callable[[list[Place]], Place]) -> None:
        """Go on after branches that end so."""
        live = [end for end in ends if end is not None]
        if not live:
            self.ended = bool(ends)
            return
        for name in dict.fromkeys(name for end in live for name in end):
            before = self.versions.get(name, (0, 0))[0]
            self.bind(name, join([end.get(name, before) for end in live]))

    # --- loops and try

    def log_position(self) -> int:
        """Return where the log of assignments is now, for `assigned_since`."""
        return len(self._log)

    def assigned_since(self, position: int) -> dict[str, list[Place]]:
        """Return every place that names were let stand for since then."""
        found: dict[str, list[Place]] = {}
        for name, place in self._log[position:]:
            found.setdefault(name, []).append(place)
        return found
