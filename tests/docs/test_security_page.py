"""SECURITY.md promises only what a test proves: every test that it names exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| (?!attacker|---)(.+) \| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


def test_every_threat_names_tests_that_exist() -> None:
    rows = ROW.findall((ROOT / "SECURITY.md").read_text())
    assert len(rows) > 40
    for attacker, goal, _, tests in rows:
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named, f"no test: {attacker}, {goal}"
        for path in named:
            assert (ROOT / path).exists(), path
