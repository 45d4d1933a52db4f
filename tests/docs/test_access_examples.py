"""The examples of keys and tenants run as they stand, apart from the port, the key and its id."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from .pages import ROOT, blocks, write_python_files
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
