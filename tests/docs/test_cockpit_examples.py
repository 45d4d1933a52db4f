"""The examples on the cockpit run."""

from __future__ import annotations

from pathlib import Path

import httpx2

from coatcheck import Client

from .pages import ROOT, blocks, run_curl, write_python_files
from .test_examples import README, serving

PAGE = ROOT / "docs/how-to/cockpit.md"


def test_jobs_are_counted_before_they_are_cancelled(tmp_path: Path) -> None:
    write_python_files(README, tmp_path)
    [command] = [block.text for block in blocks(PAGE) if block.language == "sh"]
    with serving(tmp_path, "tasks:app", "--no-worker") as url, Client(url) as client:
        client.submit("report", "2030-01", labels={"team": "blue"})
        answer = run_curl(command.replace("http://127.0.0.1:8080", url))
        assert answer.json() == {"jobs": 1, "dry_run": True, "next_cursor": None}
        assert httpx2.get(f"{url}/ui").status_code == 200
