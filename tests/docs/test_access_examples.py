"""The examples on keys and tenants run unchanged, except for the port, the key and its id."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from .pages import ROOT, blocks, run_curl, write_python_files
from .test_examples import serving

PAGE = ROOT / "docs/how-to/keys-and-tenants.md"
TASKS = """
from coatcheck import App, Context
app = App()

@app.job
async def report(ctx: Context, month: str) -> str:
    return f"the report of {month}"
"""


def run(command: str, folder: Path) -> str:
    """Run a command of the page, which must succeed."""
    program, *arguments = shlex.split(command)
    assert program == "coatcheck"
    ended = subprocess.run(
        [sys.executable, "-m", "coatcheck", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, f"{command}: {ended.stderr}"
    return ended.stdout


def test_audit(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    page = ROOT / "docs/how-to/audit.md"
    shell = [block.text for block in blocks(page) if block.language == "sh"]
    commands, curl, keys = shell
    key = json.loads(run("coatcheck keys create --scope admin --json", tmp_path))
    run("coatcheck keys create --tenant acme", tmp_path)
    every, acme, as_json = (run(command, tmp_path) for command in commands.splitlines())
    assert "tenant.create" in every
    assert "tenant.create" not in acme
    assert acme.count("key.create") == 1
    listed = json.loads(as_json)["entries"]
    assert {entry["actor"] for entry in listed} == {"cli"}
    [shown] = [json.loads(block.text) for block in blocks(page) if block.language == "json"]
    assert [*shown["entries"][0]] == [*listed[0]]
    with serving(tmp_path, "tasks:app") as url:
        command = curl.replace("http://127.0.0.1:8080", url)
        answer = run_curl(command.replace("$COATCHECK_API_KEY", key["key"]))
        assert answer.status_code == 200
        assert answer.json() == {"entries": [], "next_cursor": None}
    # The server has written what it noted when it stopped.
    assert "LAST USED" in run(keys, tmp_path)
    found = json.loads(run(f"{keys} --json", tmp_path))["keys"]
    assert {each["id"] for each in found if each["last_used_at"] is not None} == {key["id"]}


def test_keys_and_tenants(tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text(TASKS)
    shell = [block.text.splitlines() for block in blocks(PAGE) if block.language == "sh"]
    [first], [second, third], [list_, revoke, suspend, activate], [quota], [usage] = shell
    assert run(first, tmp_path).startswith("ck_")
    acme = json.loads(run(second, tmp_path))
    run(third, tmp_path)
    with serving(tmp_path, "tasks:app") as url:
        write_python_files(PAGE, tmp_path, url)

        def ask() -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "ask.py"],
                cwd=tmp_path,
                env={**os.environ, "ACME_KEY": acme["key"]},
                capture_output=True,
                text=True,
                check=False,
            )

        assert ask().stdout == "the report of 2030-01\n"
        assert acme["id"] in run(list_, tmp_path)
        run(suspend, tmp_path)
        assert "suspended" in ask().stderr
        run(activate, tmp_path)
        run(quota, tmp_path)
        assert ask().stdout == "the report of 2030-01\n"
        assert "report" in run(usage, tmp_path)
        run(revoke.replace("0f4a91c2d37b", acme["id"]), tmp_path)
        assert "revoked" in ask().stderr
