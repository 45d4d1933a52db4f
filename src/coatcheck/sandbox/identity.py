"""The uids of confined programs, if the server runs as root.

Each program gets a uid that no other process has at that time (`own_user.py`). It then owns only
the folders that it may write to, and can signal, inspect or limit only its own processes.

`COATCHECK_SANDBOX_UIDS` names the range, as FIRST-LAST. Without it, the first of two ranges that
exists in this user namespace is used: one that systemd keeps free, and for containers with few uids
one below systemd's dynamic users.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from coatcheck.settings import PREFIX, read_uids

SETTING = f"{PREFIX}SANDBOX_UIDS"


class UidRange(NamedTuple):
    """A range of uids, first and last included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"


_USUAL = (UidRange(2_000_000_000, 2_000_065_535), UidRange(60_600, 61_183))


def uid_range(environment: Mapping[str, str] | None = None) -> UidRange | None:
    """Return the range of uids; None if this user namespace has none to spare.

    Raise ConfigurationError if the setting is not valid.
    """
    text = (os.environ if environment is None else environment).get(SETTING, "").strip()
    if (named := read_uids(text)) is not None:
        return UidRange(*named)
    return next((each for each in _USUAL if _is_mapped(each)), None)


def is_open_to_all(paths: Iterable[Path]) -> bool:
    """Return whether every user can read each of these paths, and enter its parent folders."""
    return all(_may_enter(path.resolve()) and _may_read(path) for path in paths)


def is_enterable_by_all(paths: Iterable[Path]) -> bool:
    """Return whether every user can enter the parent folders of each of these paths."""
    return all(_may_enter(path.resolve()) for path in paths)


def _may_enter(path: Path) -> bool:
    return all(_mode(folder) & stat.S_IXOTH for folder in path.parents)


def _may_read(path: Path) -> bool:
    mode = _mode(path)
    wanted = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
    return mode & wanted == wanted


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode
    except OSError:
        return 0


def _is_mapped(uids: UidRange) -> bool:
    """Return whether this user namespace has these uids, and gids of the same numbers."""
    return all(_maps(Path(f"/proc/self/{name}_map"), uids) for name in ("uid", "gid"))


def _maps(file: Path, uids: UidRange) -> bool:
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return False
    for line in lines:
        first, _, count = map(int, line.split())
        if first <= uids.first and uids.last < first + count:
            return True
    return False
