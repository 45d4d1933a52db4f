"""The findings of `coatcheck doctor --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.processes import run_to_end


def diagnose(folder: Path, *arguments: str, **settings: str) -> dict[str, Any]:
    """Run the doctor and return its JSON output."""
    ended = run_to_end("doctor", "--json", *arguments, folder=folder, **settings)
    assert ended.stderr == ""
    found: dict[str, Any] = json.loads(ended.stdout)
    assert set(found) == {"ok", "settings", "checks"}
    for check in found["checks"]:
        assert set(check) == {"area", "level", "message", "advice"}
        assert check["level"] in ("ok", "warning", "problem")
        assert check["level"] == "ok" or check["advice"], "each finding has advice"
    problems = [check for check in found["checks"] if check["level"] == "problem"]
    assert found["ok"] is (not problems)
    assert ended.returncode == (1 if problems else 0)
    return found


def of_area(found: dict[str, Any], area: str) -> list[tuple[str, str]]:
    return [
        (check["level"], check["message"]) for check in found["checks"] if check["area"] == area
    ]
