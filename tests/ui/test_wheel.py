"""A wheel has the whole cockpit in it: it is built, unpacked and served from there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path, PurePosixPath

import httpx2
import pytest

from tests.cli.processes import running

from .conftest import ROOT

# What a wheel is made of; a copy, so that nothing is left behind in the repository.
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "src", "tools")
PATIENCE_S = 300
_LINK = re.compile(r'(?:src|href)="([^"]+)"')
_IMPORT = re.compile(r"""(?:from|import)\s*["'](\.[^"']+)["']""")


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel of this tree puts into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            leave_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
            shutil.copytree(source, folder / "tree" / name, ignore=leave_out)
        else:
            (folder / "tree").mkdir(exist_ok=True)
            shutil.copy(source, folder / "tree" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--quiet"]
    subprocess.run(
        [*command, "--wheel-dir", str(folder), str(folder / "tree")],
        check=True,
        capture_output=True,
        timeout=PATIENCE_S,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


@pytest.mark.timeout(2 * PATIENCE_S)
def test_the_cockpit_is_served_from_a_wheel(unpacked: Path, tmp_path: Path) -> None:
    (tmp_path / "where.py").write_text(
        "import coatcheck, sys\nfrom coatcheck import App\napp = App()\n"
        "print(coatcheck.__file__, file=sys.stderr)\n"
    )
    with (
        running(
            *("serve", "where:app", "--in-process", "--port", "0"),
            folder=tmp_path,
            PYTHONPATH=str(unpacked),
        ) as server,
        httpx2.Client(base_url=server.url(), timeout=60) as http,
    ):
        assert server.stderr.wait_for("__init__.py").startswith(str(unpacked))
        page = http.get("/ui")
        assert page.status_code == 200
        wanted, seen = _LINK.findall(page.text), set[str]()
        while wanted:
            path = wanted.pop()
            if path in seen:
                continue
            seen.add(path)
            found = http.get(path)
            assert found.status_code == 200, path
            if path.endswith(".js"):
                below = PurePosixPath(path).parent
                wanted += [_normal(below / name) for name in _IMPORT.findall(found.text)]
    named = {path.split("/", 3)[3] for path in seen}
    for part in ("preact.js", "hooks.js", "htm.js", "uplot.js", "uplot.css"):
        assert f"vendor/{part}" in named
    there = unpacked / "coatcheck/ui/static"
    ours = {path.relative_to(there).as_posix() for path in there.rglob("*.js")}
    assert named & ours == ours, "every module is used, and none is missing"


def test_a_wheel_has_what_chromium_draws_with(unpacked: Path) -> None:
    folder = unpacked / "coatcheck/surfaces/render/drawing/chromium"
    there = {path.name for path in folder.rglob("*") if path.suffix != ".py"}
    assert {"page.js", "mermaid.js", "katex.css", "mermaid.LICENSE.txt"} <= there
    assert len([name for name in there if name.startswith("KaTeX_")]) == 20


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/" + "/".join(parts[1:])
