"""Secrets are never in logs, errors, metrics or the database in clear."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.processes import run_to_end
from tests.hardening.conftest import APP
from tests.hardening.secret_traces import WAYS, live, made_up


@pytest.mark.parametrize("names", [*WAYS, ()], ids=["all set", "a pepper", "nothing set"])
def test_no_secret_is_readable_after_a_server_has_run(tmp_path: Path, names: Sequence[str]) -> None:
    life = live(tmp_path, made_up(names))
    if "pepper" not in names:
        # The pepper file is beside the database; no other file may contain it.
        life.hidden["pepper"] = life.said.pop("coatcheck.db.pepper").strip()

    assert {"coatcheck.db", "stderr", "metrics", "answers"} <= set(life.said)
    assert life.leaks() == []
    # The search works: text that is not secret is found.
    assert "acme" in life.said["list of keys"]
    assert "acme" in life.said["coatcheck.db"] + life.said.get("coatcheck.db-wal", "")


def test_the_password_of_an_unreachable_database_is_not_shown(tmp_path: Path) -> None:
    database = "postgresql://jobs:swordfish-7f3a@127.0.0.1:1/jobs?connect_timeout=1"
    for command in (("worker", APP), ("doctor",), ("migrate",), ("keys", "list")):
        ended = run_to_end(*command, "--database", database, folder=tmp_path)
        assert ended.returncode != 0, command
        assert "swordfish" not in ended.stdout + ended.stderr, command
