"""The examples on the proxy run: the service, the rule, and the requests before and after."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from coatcheck.surfaces.proxy.rule import KEYS, read_rules
from tests.cli.processes import poll_until

from .pages import ROOT, blocks, run_curl
from .test_examples import serving

HOW_TO = ROOT / "docs/how-to/proxy-a-service.md"
REFERENCE = ROOT / "docs/reference/proxy.md"
REPORT = b"year,total\n2026,42\n"


def of(page: Path, language: str) -> list[str]:
    return [block.text for block in blocks(page) if block.language == language]


@contextmanager
def the_service(folder: Path, port: int) -> Iterator[None]:
    [source] = of(HOW_TO, "python")
    (folder / "reports.py").write_text(source.replace("9000", str(port)))
    process = subprocess.Popen(
        [sys.executable, "reports.py"], cwd=folder, stderr=subprocess.DEVNULL
    )
    try:
        poll_until(lambda: _answers(port), "the service listens")
        yield
    finally:
        process.kill()
        process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def test_before_and_after(tmp_path: Path) -> None:
    port = _free_port()
    [rule] = of(HOW_TO, "toml")
    (tmp_path / "proxy.toml").write_text(rule.replace("9000", str(port)))
    before, _, after, later = of(HOW_TO, "sh")
    with the_service(tmp_path, port), serving(tmp_path, "--config=proxy.toml") as url:
        directly = run_curl(before.strip().replace("9000", str(port)))
        assert (directly.status_code, directly.content) == (201, REPORT)
        accepted = run_curl(after.strip().replace("http://127.0.0.1:8080", url))
        job_id = accepted.headers["coatcheck-job"]
        assert (accepted.status_code, accepted.json()["id"]) == (202, job_id)
        here = later.strip().replace("http://127.0.0.1:8080", url)
        answer = run_curl(here.replace("01KA4F0Z3T8W2B6M9N4Q7R1S5V", job_id))
        assert (answer.status_code, answer.content) == (201, REPORT)
        assert answer.headers["content-type"] == directly.headers["content-type"] == "text/csv"


def test_every_key_of_a_rule_is_in_the_reference() -> None:
    text = REFERENCE.read_text()
    listed = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert listed == KEYS
    [example] = of(REFERENCE, "toml")
    [table] = tomllib.loads(example)["proxy"]
    assert set(table) == KEYS
    assert len(read_rules([table])) == 1
