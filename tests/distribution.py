"""Distribution of tests over xdist workers: files with shared fixtures stay on one worker.

pytest-xdist's own groups have no effect with pytest 9, because test ids are no longer where xdist
writes the group. So each worker started its own browser, and built its own wheel, for one file.
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
    """Schedule files with shared fixtures as a whole and first, other tests one by one."""

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
