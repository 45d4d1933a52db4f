"""Every example in the documentation runs as it stands, apart from the port and the job's id."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coatcheck import Client

from .pages import PAGES, ROOT, blocks, run_curl, write_python_files

README = ROOT / "README.md"


@contextmanager
def serving(folder: Path, app: str) -> Iterator[str]:
    """Serve an app of the documentation from a folder, on a free port."""
    command = [sys.executable, "-m", "coatcheck", "serve", app, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[3]
        finally:
            server.terminate()


def test_the_five_minute_path_of_the_readme(tmp_path: Path) -> None:
    assert write_python_files(README, tmp_path) == ["tasks.py", "ask.py"]
    commands = [
        block.text for block in blocks(README) if block.language == "sh" and "curl" in block.text
    ]
    with serving(tmp_path, "tasks:app") as url:
        submit, come_back = (text.replace("http://127.0.0.1:8080", url) for text in commands)
        accepted = run_curl(submit)
        assert accepted.status_code == 202
        location = accepted.headers["Location"]
        job_id = location.rpartition("/")[2]
        sample_id = come_back.partition("/jobs/")[2].partition("?")[0]
        answer = run_curl(come_back.replace(sample_id, job_id))
        assert (answer.status_code, answer.json()["state"]) == (200, "succeeded")
        assert answer.json()["result"] == {"month": "2030-01", "pages": 10}
        assert answer.json()["progress"]["message"] == "page 10"

        write_python_files(README, tmp_path, url)
        asked = subprocess.run(
            [sys.executable, "ask.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert asked.stdout.splitlines()[-1] == "{'month': '2030-01', 'pages': 10}"


def test_steering_a_job(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/steer-a-job.md"
    write_python_files(page, tmp_path)
    with serving(tmp_path, "steering:app") as url, Client(url) as client:
        assert client.run("fetch", "http://example.com") == "got http://example.com"
        job = client.wait(client.submit("fetch", "ftp://example.com").id)
        assert (job["state"], job["error"]["code"], job["attempt"]) == ("failed", "unsupported", 1)
        write_python_files(page, tmp_path, url)
        cancelled = subprocess.run(
            [sys.executable, "cancel.py"], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert cancelled.stdout.strip() in ("cancelled", "running", "queued")


def test_coming_back_for_a_result(tmp_path: Path) -> None:
    page = ROOT / "docs/how-to/come-back-for-the-result.md"
    write_python_files(page, tmp_path)
    commands = [block.text for block in blocks(page) if block.language == "sh"]
    with serving(tmp_path, "tickets:app") as url:
        here = [text.replace("http://127.0.0.1:8080", url) for text in commands]
        first, again = run_curl(here[0]), run_curl(here[0])
        assert (first.status_code, first.json()["result"]) == (200, "3 loaves")
        assert first.headers["Preference-Applied"] == "wait=10"
        assert again.headers["Idempotency-Replayed"] == "true"
        assert again.json()["id"] == first.json()["id"]
        answers = [
            run_curl(text.replace("01M7GDTNAQ55VVM48585MMPRGK", first.json()["id"]))
            for text in here[1:]
        ]
        waited, result, events, explained = answers
        assert waited.json()["state"] == "succeeded"
        assert result.json() == "3 loaves"
        assert "event: progress" in events.text
        assert events.text.rstrip().rpartition("event: ")[2].startswith("end\n")
        assert explained.json()["explain"][0]["code"] == "ended"


def test_the_python_reference(tmp_path: Path) -> None:
    write_python_files(ROOT / "docs/reference/python.md", tmp_path)
    with serving(tmp_path, "everything:app") as url, Client(url) as client:
        handle = client.submit("convert", "some/path")
        assert handle.result() == 9
        assert handle.job["progress"]["message"] == "half way"


def test_testing_your_jobs(tmp_path: Path) -> None:
    write_python_files(ROOT / "docs/how-to/test-your-jobs.md", tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout
    assert "3 passed" in tested.stdout


def test_the_job_of_the_http_reference_has_the_shape_of_a_real_one(tmp_path: Path) -> None:
    (sample,) = [b for b in blocks(ROOT / "docs/reference/http.md") if b.language == "json"]
    write_python_files(README, tmp_path)
    with serving(tmp_path, "tasks:app") as url, Client(url) as client:
        real = client.wait(client.submit("report", "2030-01").id)
    assert list(json.loads(sample.text)) == list(real)


def test_every_python_block_is_run_by_one_of_these() -> None:
    # shop.py needs PostgreSQL: tests/postgres/test_shop.py.
    run = {
        "tasks.py",
        "ask.py",
        "steering.py",
        "cancel.py",
        "everything.py",
        "shop.py",
        "tickets.py",
        "billing.py",
        "test_billing.py",
    }
    named = {
        block.file_name for page in PAGES for block in blocks(page) if block.language == "python"
    }
    assert named == run
