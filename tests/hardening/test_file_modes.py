"""Only the owner can read the files of a server, whatever the umask; the doctor checks it."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.processes import Running, run_to_end
from tests.hardening.conftest import running_after


@pytest.fixture
def careless(tmp_path: Path) -> Iterator[Running]:
    """A server with every surface, and an umask of 0."""
    with running_after("umask 0", "serve", "--port", "0", "--in-process", folder=tmp_path) as found:
        yield found


def open_to_others(folder: Path) -> list[str]:
    """Return every file and folder below that others can access."""
    found = []
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) and mode & 0o077:
            found.append(f"{path.relative_to(folder)} {stat.S_IMODE(mode):o}")
    return found


def test_files_of_a_server_are_private(careless: Running, tmp_path: Path) -> None:
    with httpx2.Client(base_url=careless.url(), timeout=60) as http:
        document = {"text": "Coats are checked here.", "name": "a.md"}
        taken = http.post("/v1/ingest", json=document)
        assert taken.status_code in (200, 202), taken.text
        ended = http.get(f"/v1/jobs/{taken.json()['id']}?wait=60").json()
        assert ended["finished_at"] is not None, "well or not: it has written what it writes"
        assert http.get("/v1/collections").status_code == 200
        assert http.post("/v1/uploads", content=b"x" * 2_000_000).status_code == 201
        webhook = {"url": "https://93.184.216.34/hook"}
        assert http.post("/v1/webhooks", json=webhook).status_code == 201

        names = {path.name for path in (tmp_path / "data").iterdir()}
        files = {"coatcheck.db", "coatcheck.db-wal", "coatcheck.db.pepper", "coatcheck-search.db"}
        assert {*files, "blobs"} <= names
        assert stat.S_IMODE((tmp_path / "data").stat().st_mode) == 0o700
        assert open_to_others(tmp_path) == []


def test_backups_and_migrated_databases_are_private(tmp_path: Path) -> None:
    for command in (("migrate",), ("backup", "copy.db")):
        ended = run_to_end(*command, folder=tmp_path)
        assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "copy.db").is_file()
    assert open_to_others(tmp_path) == []


def findings(folder: Path) -> list[tuple[str, str, str]]:
    found = json.loads(run_to_end("doctor", "--json", folder=folder).stdout)
    return [
        (check["level"], check["message"], check["advice"])
        for check in found["checks"]
        if check["area"] == "files"
    ]


def test_the_doctor_warns_about_files_that_others_can_read(tmp_path: Path) -> None:
    run_to_end("migrate", folder=tmp_path)
    data = tmp_path / "data"
    [(level, said, _)] = findings(tmp_path)
    assert (level, said) == ("ok", f"only the owner can read the files in {data}")

    (data / "coatcheck.db").chmod(0o644)
    (data / "coatcheck.db.pepper").write_text("a pepper for this test\n")
    (data / "coatcheck.db.pepper").chmod(0o640)
    (data / "blobs").mkdir()
    (data / "blobs").chmod(0o755)
    data.chmod(0o755)
    [(level, said, advice)] = findings(tmp_path)
    assert level == "warning"
    for path, mode in (
        (data, "755"),
        (data / "blobs", "755"),
        (data / "coatcheck.db", "644"),
        (data / "coatcheck.db.pepper", "640"),
    ):
        assert f"{path} ({mode})" in said
        assert str(path) in advice
    assert "chmod go=" in advice
