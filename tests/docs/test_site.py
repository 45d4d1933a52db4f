"""The documentation site: built in strict mode, complete, without external resources."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .pages import PAGES, ROOT

# References that a browser fetches by itself.
_FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?(https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    found = importlib.util.spec_from_file_location("docs_build", ROOT / "docs/build.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def test_it_builds_without_external_resources() -> None:
    command = [sys.executable, "docs/build.py"]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    pages = list((ROOT / "site").rglob("*.html"))
    assert len(pages) > len(PAGES)  # and the 404 page
    for page in pages:
        text = page.read_text()
        fetched = [found[0] for found in _FETCHED.finditer(text) if "canonical" not in found[0]]
        assert fetched == [], page
        assert 'class="mermaid"' not in text, page  # which would fetch a library


def leaves(entries: list[dict[str, Any]]) -> Iterator[str]:
    for entry in entries:
        for below in entry.values():
            if isinstance(below, str):
                yield below
            else:
                yield from leaves(below)


def test_every_page_is_in_the_navigation() -> None:
    """Decisions are listed on a page of their own."""
    settings = tomllib.loads((ROOT / "zensical.toml").read_text())
    listed = list(leaves(settings["project"]["nav"]))
    there = {str(page.relative_to(ROOT)) for page in PAGES}
    decisions = {page for page in there if re.match(r"docs/decisions/\d", page)}
    assert sorted(listed) == sorted(there - decisions)


def test_a_broken_link_is_found(
    builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "ROOT", tmp_path)
    monkeypatch.setattr(builder, "STAGE", tmp_path / "build")
    (tmp_path / "there.svg").write_text("<svg/>")
    (tmp_path / "folder").mkdir()
    (tmp_path / "README.md").write_text(
        "![a](there.svg) ![b](none.svg) [c](folder/) [d](https://x.example) [e](../outside.md)"
    )
    broken = builder.stage()
    assert [each.split()[3].rstrip(",") for each in broken] == [
        "none.svg",
        "folder/",
        "../outside.md",
    ]
    assert (tmp_path / "build/there.svg").exists()
