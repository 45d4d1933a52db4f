"""`coatcheck keys` and `coatcheck tenants`, with a server that uses them."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.crypto.pepper import Pepper, pepper_for
from coatcheck.errors import ConfigurationError
from coatcheck.settings import Settings
from tests.cli.processes import run_to_end
from tests.docs.test_examples import serving

TASKS = """
from coatcheck import App, Context
app = App()

@app.job
async def echo(ctx: Context, value: str) -> str:
    return value
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    return tmp_path


def say(folder: Path, *arguments: str) -> Any:
    """Run a command that succeeds, and read its JSON."""
    ended = run_to_end(*arguments, "--json", folder=folder)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def refused(ended: subprocess.CompletedProcess[str], words: str) -> None:
    assert ended.returncode == 2
    assert words in ended.stderr


def test_first_key_allows_a_public_address(folder: Path) -> None:
    without = run_to_end("serve", "tasks:app", "--host", "0.0.0.0", "--port", "0", folder=folder)
    assert without.returncode == 78
    assert "coatcheck keys create --tenant default --scope admin" in without.stderr

    made = say(folder, *["keys", "create", "--tenant", "default", "--scope", "admin"])
    assert set(made) == {"id", "key", "tenant", "scopes"}
    with serving(folder, "tasks:app", "--host", "0.0.0.0") as url:
        here = url.replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{here}/v1/jobs").status_code == 401
        headers = {"X-Api-Key": made["key"], "Host": "jobs.example"}
        assert httpx2.get(f"{here}/v1/jobs", headers=headers).status_code == 200
        assert httpx2.get(f"{here}/healthz").status_code == 200


def test_keys_are_created_listed_and_revoked(folder: Path) -> None:
    plain = run_to_end("keys", "create", "--tenant", "acme", folder=folder)
    assert plain.stdout.startswith("ck_")
    assert "not shown again" in plain.stderr
    [key] = say(folder, "keys", "list")["keys"]
    assert key["scopes"] == ["jobs:read", "jobs:write", "jobs:cancel"]
    assert plain.stdout.strip().split("_")[2] not in json.dumps(key)
    assert say(folder, "keys", "revoke", key["id"])["revoked_at"] is not None
    assert say(folder, "keys", "list", "--tenant", "other") == {"keys": []}
    pepper = folder / "data" / "coatcheck.db.pepper"
    assert stat.S_IMODE(pepper.stat().st_mode) == 0o600


def test_invalid_values_are_rejected(folder: Path) -> None:
    wrong = run_to_end("keys", "create", "--scope", "jobs:fly", folder=folder)
    refused(wrong, "'jobs:fly' is no scope")
    work = run_to_end("keys", "create", "--tenant", "a", "--scope", "jobs:work", folder=folder)
    refused(work, "workers run jobs of every tenant")
    refused(run_to_end("tenants", "set", "a", "--quota", "x=1", folder=folder), "NAME=N")
    assert say(folder, "keys", "list") == {"keys": []}
    nobody = run_to_end("tenants", "suspend", "nobody", folder=folder)
    assert nobody.returncode != 0
    assert say(folder, "tenants", "list") == {"tenants": []}


def test_tenants_have_quotas_and_a_status(folder: Path) -> None:
    say(
        folder,
        *["tenants", "set", "acme", "--quota", "jobs_waiting=5", "--quota", "stored_bytes=9"],
    )
    changed = say(folder, *["tenants", "set", "acme", "--quota", "stored_bytes="])
    assert (changed["quotas"]["jobs_waiting"], changed["quotas"]["stored_bytes"]) == (5, None)
    assert say(folder, *["tenants", "suspend", "acme", "--unpaid"])["status"] == "unpaid"
    assert say(folder, "tenants", "activate", "acme")["status"] == "active"
    assert say(folder, "tenants", "usage", "acme") == {"usage": []}
    [acme] = say(folder, "tenants", "list")["tenants"]
    assert acme["quotas"]["jobs_waiting"] == 5


def test_pepper_is_stored_beside_the_database(tmp_path: Path) -> None:
    beside = pepper_for(Settings(database=f"sqlite:///{tmp_path}/jobs.db"))
    assert beside.read() is None
    made = beside.read_or_make()
    assert beside.read() == beside.read_or_make() == made
    assert len(made) == 64

    (tmp_path / "secret").write_text("0123456789abcdef\n")
    named = Settings(pepper=f"file:{tmp_path}/secret", profile="production")
    assert pepper_for(named).read() == b"0123456789abcdef"
    with pytest.raises(ConfigurationError, match="in clear"):
        pepper_for(Settings(pepper="0123456789abcdef", profile="production"))
    with pytest.raises(ConfigurationError, match="fewer than 16"):
        Pepper("short", None).read()
    with pytest.raises(ConfigurationError, match="COATCHECK_PEPPER"):
        Pepper("", None).read_or_make()
    assert "0123456789abcdef" not in repr(Settings(pepper="0123456789abcdef"))
