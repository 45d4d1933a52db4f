"""File descriptors: how many this process may open, and how many of them connections may use.

Every client connection takes a descriptor, and a connection that sends or receives a file takes a
second. If none is left, nothing works: no accept, no database read, no log file. So at start the
soft limit is raised to the hard one, connections are rejected before they use a reserve, and one
tenant gets at most half of the descriptors for connections.
"""

from __future__ import annotations

import resource
from typing import NamedTuple

# More are never needed, and a limit of a million slows down some programs that inherit it.
MOST_USED = 65_536
LARGEST_RESERVE = 1024
SMALLEST_RESERVE = 64
# A tenant has no more requests open than this, however many descriptors there are.
MOST_PER_TENANT = 10_000


class DescriptorBudget(NamedTuple):
    """The division of one process's descriptors."""

    limit: int

    @property
    def reserve(self) -> int:
        """Descriptors that are reserved for the store, the blobs and child processes."""
        return min(LARGEST_RESERVE, max(SMALLEST_RESERVE, self.limit // 8))

    @property
    def connections(self) -> int:
        """The maximum number of client connections."""
        return max(1, (self.limit - self.reserve) // 2)

    @property
    def per_tenant(self) -> int:
        """The default maximum number of open requests of one tenant."""
        return min(MOST_PER_TENANT, max(1, self.connections // 2))


def reachable_limit() -> int:
    """Return the soft limit after `raise_limit`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MOST_USED if hard == resource.RLIM_INFINITY else min(hard, MOST_USED)
    return most if soft == resource.RLIM_INFINITY else max(soft, most)


def raise_limit() -> None:
    """Raise the soft limit as far as it is useful. If the system refuses, keep it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = reachable_limit()
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return


def current_budget() -> DescriptorBudget:
    """Return the budget for the current limit of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return DescriptorBudget(MOST_USED if soft == resource.RLIM_INFINITY else soft)
