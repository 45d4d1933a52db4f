"""`coatcheck doctor` says whether assistants can use the kinds here."""

from __future__ import annotations

import pytest

from coatcheck.cli.doctor.findings import Finding, Level
from coatcheck.cli.doctor.parts import check_parts
from coatcheck.mcp import surface
from coatcheck.settings import Settings


def about_assistants() -> Finding:
    [found] = [each for each in check_parts("sqlite", Settings()) if "assistants" in each.message]
    return found


def test_the_library_is_there() -> None:
    found = about_assistants()
    assert found.level is Level.OK
    assert found.message.endswith("assistants can use kinds as tools, at /mcp")


def test_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surface, "LIBRARY", "no-such-library")
    found = about_assistants()
    assert found.level is Level.OK  # nobody has to have it
    assert found.advice == "pip install 'coatcheck[mcp]' where the server runs"
