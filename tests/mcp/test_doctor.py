"""`coatcheck doctor` reports whether MCP clients can use the kinds."""

from __future__ import annotations

import pytest

from coatcheck.cli.doctor.findings import Finding, Level
from coatcheck.cli.doctor.parts import check_parts
from coatcheck.mcp import surface
from coatcheck.settings import Settings


def mcp_finding() -> Finding:
    [found] = [each for each in check_parts("sqlite", Settings()) if "MCP clients" in each.message]
    return found


def test_doctor_reports_the_installed_library() -> None:
    found = mcp_finding()
    assert found.level is Level.OK
    assert found.message.endswith("MCP clients can use kinds as tools, at /mcp")


def test_doctor_reports_the_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surface, "LIBRARY", "no-such-library")
    found = mcp_finding()
    assert found.level is Level.OK  # the library is optional
    assert found.advice == "pip install 'coatcheck[mcp]' on the server"
