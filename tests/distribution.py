"""Which tests go to one worker of xdist: those of a file that share what is set up for the file.

pytest-xdist's own groups are lost with pytest 9: a test's id is no longer where it writes the group
to. So each worker started its own browser, and built its own wheel, for one and the same file.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

_SHARED = re.compile(r'scope="module"')


class BySetUp(LoadScopeScheduling):  # type: ignore[misc]  # it has no types
    """Files whose tests share a set-up are handed out whole, and first; of the others each test."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        file, _, _ = nodeid.partition("::")
        return file if _shares(self._root / file) else nodeid


@cache
def _shares(file: Path) -> bool:
    places = (file, file.parent / "conftest.py")
    return any(place.exists() and _SHARED.search(place.read_text()) for place in places)
