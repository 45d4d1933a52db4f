"""Facts about processes from /proc."""

from __future__ import annotations

import contextlib
from pathlib import Path

PROC = Path("/proc")
_LISTEN = "0A"
_ESTABLISHED = "01"


def children_of(pid: int) -> dict[int, list[str]]:
    """Return the command lines of a process's children, by process id."""
    children = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            # A process may end while it is looked at.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # The name stands in parentheses and may hold anything: split after the last.
                _, parent, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(parent) == pid:
                    command = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    children[int(entry.name)] = [part.decode() for part in command]
    return children


def listening_ports(pid: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    return _ports(pid, _LISTEN)


def connected_ports(pid: int) -> list[int]:
    """Return the local port of each TCP connection of a process."""
    return [port for _, port in _sockets(pid, _ESTABLISHED)]


def _ports(pid: int, state: str) -> set[int]:
    return {port for _, port in _sockets(pid, state)}


def _sockets(pid: int, state: str) -> list[tuple[str, int]]:
    own = _socket_inodes(pid)
    found = []
    for table in ("tcp", "tcp6"):
        for line in (PROC / str(pid) / "net" / table).read_text().splitlines()[1:]:
            _, local, _, line_state, *_, inode = line.split()[:10]
            if line_state == state and inode in own:
                found.append((table, int(local.rpartition(":")[2], 16)))
    return found


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    for descriptor in (PROC / str(pid) / "fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            target = str(descriptor.readlink())
            if target.startswith("socket:["):
                inodes.add(target.removeprefix("socket:[").rstrip("]"))
    return inodes
