"""The example apps, with the real frameworks, in real servers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .gate import Gate
from .server import ROOT, Server, serving

LATER = {"Prefer": "respond-async"}
PATIENT = {"Prefer": "wait=30"}
QUICK = {"pages": 2, "seconds_a_page": 0}
SLOW = {"pages": 2, "seconds_a_page": 0.2}

MAKE_USERS = """
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
for name in ("anna", "bob"):
    user = User.objects.create_user(name)
    session = SessionStore()
    session[SESSION_KEY] = user.pk
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    print("session", session.session_key)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("slow_fastapi.py", "slow_django.py"):
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def check(server: Server, anna: dict[str, str], bob: dict[str, str]) -> None:
    quick = server.ask("POST", "/render", headers=anna | PATIENT, json=QUICK)
    assert (quick.status_code, quick.json()) == (200, {"for": "anna", "pages": 2})
    for stranger in ({}, {"Authorization": "Bearer mallory"}, {"Cookie": "sessionid=mallory"}):
        refused = server.ask("POST", "/render", headers=stranger | LATER, json=SLOW)
        assert refused.status_code == 401
    accepted = server.ask("POST", "/render", headers=anna | LATER, json=SLOW)
    assert accepted.status_code == 202
    where = accepted.headers["Location"]
    assert server.ask("GET", f"{where}/result", headers=bob).status_code == 404
    # Killed while it runs, or before: in any case the result comes.
    server.kill()
    server.start(ready="/nowhere")
    answer = server.ask("GET", f"{where}/result?wait=30", headers=anna)
    assert (answer.status_code, answer.json()) == (200, {"for": "anna", "pages": 2})
    assert answer.headers["Coatcheck-Job"] == accepted.json()["id"]


def test_fastapi_example(folder: Path, gate: Gate) -> None:
    with serving("slow_fastapi:app", folder, gate, ready="/nowhere") as server:
        anna, bob = ({"Authorization": f"Bearer {name}"} for name in ("anna", "bob"))
        check(server, anna, bob)


def test_django_example(folder: Path, gate: Gate) -> None:
    def manage(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "slow_django.py", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    manage("migrate")
    said = manage("shell", "-v", "0", "-c", MAKE_USERS).splitlines()
    keys = [line.split()[1] for line in said if line.startswith("session")]
    with serving("slow_django:app", folder, gate, ready="/nowhere") as server:
        anna, bob = ({"Cookie": f"sessionid={key}"} for key in keys)
        check(server, anna, bob)
        # Another cookie beside it, and she is still the same.
        accepted = server.ask("POST", "/render", headers=anna | LATER, json=QUICK)
        more = {"Cookie": f"theme=dark; {anna['Cookie']}"}
        where = f"{accepted.headers['Location']}/result?wait=30"
        assert server.ask("GET", where, headers=more).status_code == 200
