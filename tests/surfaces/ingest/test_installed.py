"""Without its extra the surface is skipped, and the missing package is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.ingest.settings import (
    FETCH_BYTES,
    FETCH_SECONDS,
    MEMORY,
    IngestSettings,
)

FIND = """
import sys
sys.modules["numpy"] = None
from coatcheck.surfaces.installed import installed_surfaces
[found] = [each for each in installed_surfaces() if each.name == "ingest"]
print(found.surface, found.missing, found.advice, sep="; ")
"""
LOADED = """
import sys
from coatcheck.surfaces.ingest.surface import IngestSurface
print([name for name in {parsers!r} if name in sys.modules])
"""
PARSERS = ["pypdfium2", "docx", "pptx", "openpyxl", "selectolax", "lxml"]


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_missing_package_is_named() -> None:
    assert run(FIND) == (
        "None; it needs numpy, which is not installed; "
        "run pip install 'coatcheck[ingest]' to serve it"
    )


def test_server_does_not_load_the_readers() -> None:
    """Only the process of a document loads parsers for untrusted files."""
    assert run(LOADED.format(parsers=PARSERS)) == "[]"


@pytest.mark.parametrize("name", [MEMORY, FETCH_BYTES, FETCH_SECONDS])
def test_invalid_setting_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        IngestSettings.read({name: "much"})
