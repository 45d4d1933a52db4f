"""Whose turn it is: the order in which claims take jobs, the same in every store.

1. Higher priorities first, over all kinds and queues.
2. Within a priority the tenants take turns: one job of each, then the next of each, until the claim
   has what it asked for. The next claim goes on after the tenant this one ended with.
3. Of one tenant, the older job first. Jobs with a limit key take turns by key, as the tenants do:
   one job of each key of a (kind, queue), then the next of each.

What a limit holds back is passed over. A lane (see the migration of that name) is never read
further than to its first job that is not taken, so a long one costs what a short one costs.

Where the next claim goes on is remembered here, by each process for itself. It may be forgotten:
turns then begin with the first again.
"""

from __future__ import annotations

SEPARATOR = "\x1f"
# Follows the separator: with it instead, a text is behind all that begin with it and a separator.
BEHIND = "\x20"
MOST_REMEMBERED = 10_000
HIGHEST_PRIORITY = 1_000


class Turns:
    """After whom turns go on, of the tenants at a priority and of the keys of a tenant."""

    def __init__(self) -> None:
        self._after: dict[object, str] = {}

    def after(self, place: object) -> str | None:
        """Return who had the last turn in a place; None when nobody is known to have had one."""
        return self._after.get(place)

    def had(self, place: object, who: str) -> None:
        """Note who had the last turn."""
        if len(self._after) >= MOST_REMEMBERED:
            self._after.clear()
        self._after[place] = who


def kind_in_lanes(kind: str, version: str | None) -> str:
    """Return how the lanes call a kind whose jobs have begun under a version."""
    return kind if version is None else f"{kind}@{version}"


def priority_in_lanes(priority: int) -> str:
    """Return how the lanes call a priority: higher ones first in the order of texts."""
    return f"{HIGHEST_PRIORITY - priority:04d}"
