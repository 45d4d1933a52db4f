"""The variables of one scope while its code is read, in the order it runs.

`versions` holds the variable that a name stands for at this point; `assigned` holds every variable
it ever stands for, which other scopes see. `begin_branch` starts a branch, `end_branch` returns its
changes and undoes them, and `merge_branches` joins the ends of branches. A name that is read in a
loop stands for its value before the loop and for all that the loop assigns to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coatcheck.codegraph.summary import Var

Changes = dict[str, Var]


class Loop:
    """A loop that is being read."""

    def __init__(self, start: int) -> None:
        self.start = start  # position in the scope's log
        self.joins: list[tuple[str, Var]] = []


class NameScope:
    """A module, class or function; a comprehension belongs to the scope around it."""

    def __init__(self, kind: str, parent: NameScope | None, definition: int, caller: int) -> None:
        self.kind = kind
        self.parent = parent
        self.definition = definition
        self.caller = caller
        self.versions: dict[str, tuple[Var, int]] = {}
        self.assigned: dict[str, list[Var]] = {}
        self.shared_vars: dict[str, Var] = {}
        self.pending: dict[str, Var] = {}
        self.declared: dict[str, NameScope] = {}  # global and nonlocal
        self.loops: list[Loop] = []
        # The variables of enclosing comprehensions, and of those around a lambda.
        self.local_names: dict[str, Var] = {}
        self.captured: dict[str, Var] = {}
        self.is_binding_local = False
        self.ended = False  # the code after this point is unreachable
        self.is_outline = False  # its names have no effect outside it
        self.lambdas = 0
        self.owner = -1  # the class being read, or the class of the function
        self.first_parameter: Var = 0
        self.function = -1
        self._undo: list[tuple[str, tuple[Var, int] | None]] = []
        self._log: list[tuple[str, Var]] = []

    def bind(self, name: str, var: Var) -> None:
        """Bind a name to a variable from here on."""
        self._undo.append((name, self.versions.get(name)))
        self.versions[name] = (var, len(self.loops))
        self._log.append((name, var))

    @property
    def bound(self) -> int:
        """The number of bindings so far, for `bound_since`."""
        return len(self._log)

    def bound_since(self, before: int) -> dict[str, Var]:
        """Return the names bound since a position, each with its last variable."""
        return dict(self._log[before:])

    def assign(self, name: str, var: Var) -> None:
        """Assign to a name."""
        if self.is_binding_local:
            self.local_names[name] = var
            self.bind(name, var)
            return
        scope = self.declared.get(name)
        if scope is not None:
            scope.assigned.setdefault(name, []).append(var)
            return
        self.assigned.setdefault(name, []).append(var)
        self.bind(name, var)

    def current(
        self, name: str, fresh_var: Callable[[], Var], copy: Callable[[Var, Var], None]
    ) -> Var | None:
        """Return the variable of a name at this point, or None if it is not assigned yet."""
        version = self.versions.get(name)
        if version is None:
            return None
        var, depth = version
        if var and depth < len(self.loops):
            for loop in self.loops[depth:]:
                join = fresh_var()
                copy(var, join)
                loop.joins.append((name, join))
                var = join
            self._undo.append((name, version))
            self.versions[name] = (var, len(self.loops))
        return var

    # --- branches

    def begin_branch(self) -> int:
        """Begin a branch."""
        return len(self._undo)

    def end_branch(self, mark: int) -> Changes | None:
        """End a branch and undo it; return its changes, or None if its end is unreachable."""
        changes = {name: self.versions[name][0] for name, _ in self._undo[mark:]}
        while len(self._undo) > mark:
            name, before = self._undo.pop()
            if before is None:
                self.versions.pop(name, None)
            else:
                self.versions[name] = before
        ended, self.ended = self.ended, False
        return None if ended else changes

    def merge_branches(
        self, ends: Sequence[Changes | None], join: Callable[[list[Var]], Var]
    ) -> None:
        """Join the ends of branches."""
        live = [end for end in ends if end is not None]
        if not live:
            self.ended = bool(ends)
            return
        for name in dict.fromkeys(name for end in live for name in end):
            before = self.versions.get(name, (0, 0))[0]
            self.bind(name, join([end.get(name, before) for end in live]))

    # --- loops and try

    def log_position(self) -> int:
        """Return the position in the log of assignments, for `assigned_since`."""
        return len(self._log)

    def assigned_since(self, position: int) -> dict[str, list[Var]]:
        """Return every variable that names were bound to since a position."""
        found: dict[str, list[Var]] = {}
        for name, var in self._log[position:]:
            found.setdefault(name, []).append(var)
        return found
