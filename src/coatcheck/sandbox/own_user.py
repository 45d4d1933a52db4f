"""A uid for one program, if the supervisor runs as root.

The supervisor imports this file without the rest of Coatcheck. A uid is claimed by binding an
abstract socket that is named after it. The kernel releases the name with the process, so two
programs never share a uid, and nothing has to be cleaned up. The group id is the same number.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

_IPC_RMID = 0
_CLAIM = "\0coatcheck-sandbox-uid-{}"


class OwnUser:
    """A uid. With a claim, no other sandbox uses it while this object exists."""

    def __init__(self, uid: int, claim: socket.socket | None = None) -> None:
        self.uid = uid
        self._claim = claim

    @property
    def is_exclusive(self) -> bool:
        """Whether every process of this uid belongs to this sandbox."""
        return self._claim is not None

    def take_ownership(self, paths: Sequence[str]) -> None:
        """Make the user the owner of the folders that the program may write to."""
        for path in paths:
            os.chown(path, self.uid, self.uid, follow_symlinks=False)

    def become(self) -> None:
        """Switch this process to the user permanently."""
        os.setgroups([])
        os.setresgid(self.uid, self.uid, self.uid)
        os.setresuid(self.uid, self.uid, self.uid)

    @contextlib.contextmanager
    def impersonate(self) -> Iterator[None]:
        """Act with the user's rights, and become root again afterwards.

        The kernel resets PR_SET_PDEATHSIG.
        """
        os.setegid(self.uid)
        os.seteuid(self.uid)
        try:
            yield
        finally:
            os.seteuid(0)
            os.setegid(0)

    def kill_others(self) -> None:
        """Kill every other process of the user, and remove its System V objects; after `become`.

        The kernel kills them at once, however fast they fork. sandlock keeps its list of running
        sandboxes in shared memory, one per user, which would remain.
        """
        with contextlib.suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)
        _remove_ipc(self.uid)


def claim_user(first: int, last: int) -> OwnUser:
    """Return a user that is free; raises OSError when none in the range is."""
    import socket  # noqa: PLC0415 - slow to import, and only root needs it

    for uid in range(first, last + 1):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(_CLAIM.format(uid))
        except OSError:
            claim.close()
            continue
        return OwnUser(uid, claim)
    raise OSError(f"every uid from {first} to {last} is in use")


def _remove_ipc(uid: int) -> None:
    library = ctypes.CDLL(None)
    for number in _ipc_ids("sem", uid):
        library.semctl(number, 0, _IPC_RMID)
    for number in _ipc_ids("shm", uid):
        library.shmctl(number, _IPC_RMID, None)


def _ipc_ids(kind: str, uid: int) -> list[int]:
    """Return the ids of a user's System V objects of one kind."""
    try:
        header, *lines = Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
    except (OSError, ValueError):
        return []
    column = header.split().index("uid")
    return [int(line.split()[1]) for line in lines if int(line.split()[column]) == uid]
