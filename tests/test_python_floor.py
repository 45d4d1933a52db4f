"""Python 3.11 is enough: it is what is promised, checked for, and written in."""

from __future__ import annotations

import ast
import tomllib
from importlib.metadata import distribution, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FLOOR = (3, 11)
NEWEST_OF_FLOOR = "3.11.99"


# I17
def test_it_is_what_is_promised_and_what_the_tools_check_for() -> None:
    assert PROJECT["project"]["requires-python"] == ">=3.11"
    assert PROJECT["tool"]["ruff"]["target-version"] == "py311"
    assert PROJECT["tool"]["mypy"]["python_version"] == "3.11"
    assert "sys.version_info < (3, 11)" in (ROOT / "Makefile").read_text()


# I17
def test_everything_is_written_in_it() -> None:
    folders = ("src", "examples", "tests", "tools")
    written = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    written = [path for path in written if "programs" not in path.parts]  # what tests analyse
    assert len(written) > 500
    for path in written:
        ast.parse(path.read_text(), str(path), feature_version=FLOOR)


# I17
def test_so_is_what_it_needs() -> None:
    [ours] = [
        Requirement(line)
        for line in PROJECT["project"]["optional-dependencies"]["dev"]
        if Requirement(line).name == "coatcheck"
    ]
    looked_at = []
    for needed in map(Requirement, requires("coatcheck") or ()):
        if needed.name != "coatcheck" and is_asked_for(needed, ours.extras):
            asked = distribution(needed.name).metadata.json.get("requires_python", "")
            assert NEWEST_OF_FLOOR in SpecifierSet(str(asked)), needed.name
            looked_at.append(needed.name)
    assert {"starlette", "asyncpg", "mcp", "numpy"} <= set(looked_at)


def is_asked_for(needed: Requirement, extras: set[str]) -> bool:
    marker = needed.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))
