"""The examples of docs/how-to/middleware.md work as the page says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.docs.pages import ROOT, blocks, run_curl, write_python_files

from .gate import Gate
from .server import serving

PAGE = ROOT / "docs/how-to/middleware.md"
EXAMPLE_ID = "01J9ZK3W4T5V6X7Y8Z9ABCDEFG"
LATER = {"Prefer": "respond-async"}
ORDER = {"pages": 1, "seconds_a_page": 0}


def test_before_and_after_examples(tmp_path: Path, gate: Gate) -> None:
    write_python_files(PAGE, tmp_path)
    shell = [block.text for block in blocks(PAGE) if block.language == "sh"]
    order, fetch = (text for text in shell if text.startswith("curl"))
    with serving("after:app", tmp_path, gate, ready="/docs") as server:
        here = order.replace("http://127.0.0.1:8000", server.url)
        accepted = run_curl(here)
        assert accepted.status_code == 202
        job = accepted.json()["id"]
        assert accepted.headers["Location"] == f"/v1/jobs/{job}"
        server.kill()
        server.start(ready="/docs")
        there = fetch.replace("http://127.0.0.1:8000", server.url).replace(EXAMPLE_ID, job)
        answer = run_curl(there)
        assert (answer.status_code, answer.headers["Coatcheck-Job"]) == (200, job)
        [shown] = [
            block.text.splitlines()[-1]
            for block in blocks(PAGE)
            if block.language == "text" and "200 OK" in block.text
        ]
        assert answer.text == shown
        assert run_curl(re.sub("Bearer anna", "Bearer bob", here)).status_code == 401


def test_hook_example(tmp_path: Path, gate: Gate) -> None:
    write_python_files(PAGE, tmp_path)
    with serving("hook:app", tmp_path, gate, ready="/docs") as server:
        first, second = ({"Authorization": f"Bearer {token}"} for token in ("anna", "anna-renewed"))
        accepted = server.ask("POST", "/render", headers=first | LATER, json=ORDER)
        where = f"{accepted.headers['Location']}/result?wait=30"
        assert server.ask("GET", where, headers=second).json() == {"for": "anna", "pages": 1}
        assert server.ask("GET", where).status_code == 401
        assert server.ask("POST", "/render", headers=LATER, json=ORDER).status_code == 401
        # The app looks again, as the page says, and does not know the new token.
        renewed = server.ask("POST", "/render", headers=second | LATER, json=ORDER)
        where = f"{renewed.headers['Location']}/result?wait=30"
        answer = server.ask("GET", where, headers=second)
        assert (answer.status_code, answer.json()) == (401, {"detail": "who are you?"})


def test_step_example(tmp_path: Path, gate: Gate) -> None:
    write_python_files(PAGE, tmp_path)
    with serving("once:app", tmp_path, gate, ready="/docs") as server:
        answer = server.ask("POST", "/draw?pages=2", headers={"Prefer": "wait=30"})
        assert answer.json() == ["page 0", "page 1"]
        steps = server.ask("GET", f"/v1/jobs/{answer.headers['Coatcheck-Job']}/steps").json()
        assert [step["name"] for step in steps["steps"]] == ["draw"]
