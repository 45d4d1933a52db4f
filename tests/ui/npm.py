"""The tool that fetches from npm, for tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from .conftest import ROOT


def front_end_for(folder: Path) -> ModuleType:
    """Load the tool, with a folder of its own to unpack into."""
    spec = importlib.util.spec_from_file_location("front_end", ROOT / "tools/front_end.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["front_end"] = module
    spec.loader.exec_module(module)
    del sys.modules["front_end"]
    folder.mkdir()
    module.FOLDER = folder  # type: ignore[attr-defined]
    return module
