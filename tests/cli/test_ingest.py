"""`coatcheck ingest` and `coatcheck search`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx2
import pytest

from tests.cli.processes import Running
from tests.cli.shell import Shell, write_files

pytestmark = pytest.mark.timeout(300)

FILES = {
    "notes/bread.md": "# Bread\n\nBake it at 230 degrees until the crust sings.\n",
    "notes/deep/otters.txt": "Otters hold hands while they sleep.\n",
    "notes/ignored.md": "# Secret\n\nNobody reads this.\n",
    "notes/.gitignore": "ignored.md\n",
    "notes/picture.png": "no document",
}


@pytest.fixture(scope="module")
def server(plain_server: Running) -> Running:
    return plain_server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path, FILES)


def run(server: Running, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return Shell(server.url(), folder, patience_s=250).run(*arguments)


def test_folder_is_ingested_and_searchable(server: Running, folder: Path) -> None:
    first = run(server, folder, "ingest", "notes", "--collection", "c", "--metadata", "by=me")
    assert first.returncode == 0, first.stderr
    assert "skipped: 2 not documents, 1 ignored" in first.stderr
    assert "  notes/bread.md  1 passages" in first.stderr
    assert "2 documents to 'c': 2 added (2 passages)" in first.stderr

    again = run(server, folder, "ingest", "notes/deep", "notes/bread.md", "--collection", "c")
    assert "2 documents to 'c': 0 added (0 passages), 2 unchanged" in again.stderr

    asked = run(server, folder, "search", "at what heat do I make a loaf", "--collection", "c")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.startswith("1. notes/bread.md")
    assert "   Bake it at 230 degrees until the crust sings." in asked.stdout
    found = run(
        server, folder, *("search", "otters", "--collection", "c", "--mode", "text", "--json")
    )
    [passage] = json.loads(found.stdout)
    assert passage["document"]["name"] == "notes/deep/otters.txt"


def test_unreadable_files_are_listed_at_the_end(server: Running, folder: Path) -> None:
    (folder / "notes/broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    (folder / "notes/picture.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    done = run(server, folder, "ingest", "notes", "notes/picture.png", "--collection", "d")
    assert done.returncode == 1
    *_, summary, first, second = done.stderr.splitlines()
    assert "4 documents to 'd': 2 added (2 passages), 2 failed" in summary
    assert first.startswith("coatcheck: notes/broken.pdf: ")
    assert second.startswith("coatcheck: notes/picture.png: ")


def test_empty_input_and_empty_results_are_errors(server: Running, folder: Path) -> None:
    (folder / "empty").mkdir()
    done = run(server, folder, "ingest", "empty")
    assert (done.returncode, done.stderr) == (2, "coatcheck: there are no documents to ingest\n")
    assert run(server, folder, "ingest", "not-there").returncode == 2
    assert run(server, folder, "search", "x", "--collection", "not-there").returncode == 3


def test_progress_is_shown_on_a_terminal(server: Running, folder: Path) -> None:
    queue = f"{server.url()}/v1/queues/ingest"
    assert httpx2.post(f"{queue}/pause").status_code == 200
    shell = Shell(server.url(), folder)
    with shell.on_terminal("ingest", "notes", "--collection", "e") as screen:
        screen.wait_for("0 of 2  notes/bread.md 0%  queued")
        assert httpx2.post(f"{queue}/resume").status_code == 200
        screen.wait_for("2 documents to 'e': 2 added (2 passages)")
        assert screen.end() == 0
    assert "  notes/deep/otters.txt  1 passages\n" in screen.text


def test_ctrl_c_leaves_sent_documents_running(server: Running, folder: Path) -> None:
    queue = f"{server.url()}/v1/queues/ingest"
    assert httpx2.post(f"{queue}/pause").status_code == 200
    with Shell(server.url(), folder).on_terminal("ingest", "notes", "--collection", "f") as screen:
        screen.wait_for("0 of 2")
        screen.press_ctrl_c()
        assert screen.end() == 130
    assert (
        "Documents already sent continue: coatcheck jobs list --kind ingest.document" in screen.text
    )
    assert httpx2.post(f"{queue}/resume").status_code == 200
