"""Build the documentation site into `site/`: `make docs`.

Pages link to each other and to files of the repository by relative paths. So that these work in the
site as well, it is built from a copy with the layout of the repository: all pages, and each file
that one of them links to. A broken link or anchor fails the build.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STAGE = ROOT / "build" / "site"  # as zensical.toml says
PAGES = ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/*.md")
_LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def pages() -> Iterator[Path]:
    """Find every page of the documentation."""
    for pattern in PAGES:
        yield from ROOT.glob(pattern)


def stage() -> list[str]:
    """Copy the pages and their linked files; return broken links."""
    shutil.rmtree(STAGE, ignore_errors=True)
    broken = []
    for page in pages():
        _copy(page)
        for link in _LINK.findall(page.read_text(encoding="utf-8")):
            if "://" in link or link.startswith("mailto:"):
                continue
            file = (page.parent / link).resolve()
            if file.is_file() and file.is_relative_to(ROOT):
                _copy(file)
            else:
                broken.append(f"{page.relative_to(ROOT)} links to {link}, which is no file here")
    return broken


def _copy(file: Path) -> None:
    copy = STAGE / file.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, copy)


def build() -> int:
    """Build the site in strict mode; return the exit code."""
    if broken := stage():
        sys.stderr.write("\n".join([*broken, ""]))
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - our own


if __name__ == "__main__":
    sys.exit(build())
