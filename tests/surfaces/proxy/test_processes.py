"""The proxy in real processes: a config file, an API, a worker, and crashes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck.cli.exit_codes import EXIT_CONFIGURATION
from tests.cli.diagnosis import diagnose, of_area
from tests.cli.proc_files import children_of
from tests.cli.processes import Running, poll_until, run_to_end, running

SERVICE = Path(__file__).with_name("slow_service.py")
NOWHERE = "http://127.0.0.1:1"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("service")
    command = [sys.executable, str(SERVICE), str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), folder
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def write_rules(folder: Path, target: str, *matches: str, **keys: str) -> str:
    more = "".join(f"{name} = {value}\n" for name, value in keys.items())
    rules = [f'[[proxy]]\nmatch = "{match}"\ntarget = "{target}"\n{more}' for match in matches]
    path = folder / "proxy.toml"
    path.write_text("\n".join(rules))
    return str(path)


@contextmanager
def serving(folder: Path, config: str, **settings: str) -> Iterator[Running]:
    with running(
        *("serve", "--config", config, "--port", "0"),
        folder=folder,
        COATCHECK_LEASE_S="2",
        COATCHECK_SWEEP_S="0.5",
        **settings,
    ) as server:
        server.stderr.wait_for("worker started")
        server.url()
        yield server


def kill(server: Running, word: str) -> None:
    """Kill the API or the worker as the kernel does when memory runs out."""
    children = children_of(server.pid)
    [pid] = [pid for pid, command in children.items() if word in command]
    os.kill(pid, signal.SIGKILL)


def submit(server: Running, path: str, method: str = "POST") -> str:
    answer = httpx2.request(method, server.url() + path, headers={"Prefer": "respond-async"})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(server: Running, job_id: str) -> dict[str, Any]:
    url = f"{server.url()}/v1/jobs/{job_id}?wait=60"
    found: dict[str, Any] = httpx2.get(url, timeout=90).json()
    assert found["finished_at"] is not None, found
    return found


def calls_of(folder: Path, name: str) -> list[str]:
    return [line for line in (folder / "calls").read_text().splitlines() if f"/{name} " in line]


def test_config_file_enables_the_proxy(service: tuple[str, Path], tmp_path: Path) -> None:
    config = write_rules(tmp_path, service[0], "POST /reports/*")
    with serving(tmp_path, config) as server:
        answer = httpx2.post(f"{server.url()}/reports/a", content=b"x", timeout=60)
        assert (answer.status_code, answer.content) == (200, b"answer to a")
        assert answer.headers["transfer-encoding"] == "chunked"
        job = ended(server, answer.headers["coatcheck-job"])
        assert (job["state"], job["kind"]) == ("succeeded", "proxy.post-reports")


def test_rules_work_beside_an_app(service: tuple[str, Path], tmp_path: Path) -> None:
    config = write_rules(tmp_path, service[0], "POST /reports/*")
    app = "from coatcheck import App\napp = App()\n@app.job\ndef own(ctx): return 7\n"
    (tmp_path / "own.py").write_text(app)
    arguments = ("serve", "own:app", "--config", config, "--port", "0", "--in-process")
    with running(*arguments, folder=tmp_path) as server:
        answer = httpx2.post(f"{server.url()}/reports/b", timeout=60)
        assert answer.content == b"answer to b"
        made = httpx2.post(f"{server.url()}/v1/jobs", json={"kind": "own"}).json()
        assert ended(server, made["id"])["result"] == 7


def test_killed_worker_repeats_only_repeatable_calls(
    service: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = service
    matches = ("POST /held/*", "GET /held/*")
    config = write_rules(tmp_path, url, *matches)
    with serving(tmp_path, config) as server:
        posted, got = submit(server, "/held/posted"), submit(server, "/held/got", "GET")
        for name in ("posted", "got"):
            poll_until((folder / f"{name}.asked").exists, f"{name} was asked for")
        kill(server, "worker")
        # The call that is not repeatable failed; the other is repeated with the same key.
        job = ended(server, posted)
        assert (job["state"], job["reason"]) == ("failed", "lost")
        (folder / "got.go").touch()
        assert ended(server, got)["state"] == "succeeded"
        assert len(calls_of(folder, "posted")) == 1
        first, second = calls_of(folder, "got")
        assert first == second
        answer = httpx2.get(f"{server.url()}/v1/jobs/{got}/result")
        assert answer.content == b"answer to got"


def test_repeatable_post_is_repeated_after_a_crash(
    service: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = service
    config = write_rules(tmp_path, url, "POST /held/*", repeatable="true")
    with serving(tmp_path, config) as server:
        job_id = submit(server, "/held/again")
        poll_until((folder / "again.asked").exists, "it was asked for")
        kill(server, "worker")
        (folder / "again.go").touch()
        assert ended(server, job_id)["state"] == "succeeded"
        assert len(calls_of(folder, "again")) == 2


def test_killed_worker_breaks_the_stream_and_cancels_the_job(
    service: tuple[str, Path], tmp_path: Path
) -> None:
    url, folder = service
    config = write_rules(tmp_path, url, "GET /streamed/*")
    with (
        serving(tmp_path, config) as server,
        httpx2.stream("GET", f"{server.url()}/streamed/cut", timeout=60) as answer,
    ):
        pieces = answer.iter_bytes()
        assert next(pieces) == b"first "
        kill(server, "worker")
        with pytest.raises(httpx2.RemoteProtocolError):
            next(pieces)
        # A second attempt could not reach the caller, so there is none.
        (folder / "cut.go").touch()
        assert ended(server, answer.headers["coatcheck-job"])["state"] == "cancelled"
        assert len(calls_of(folder, "cut")) == 1


def test_killed_api_does_not_affect_the_job(service: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = service
    config = write_rules(tmp_path, url, "POST /streamed/*")
    with serving(tmp_path, config) as server:
        with httpx2.stream("POST", f"{server.url()}/streamed/api", timeout=60) as answer:
            job_id = answer.headers["coatcheck-job"]
            pieces = answer.iter_bytes()
            assert next(pieces) == b"first "
            kill(server, "serve")
            with pytest.raises((httpx2.RemoteProtocolError, httpx2.ReadError)):
                next(pieces)
        (folder / "api.go").touch()
        assert ended(server, job_id)["state"] == "succeeded"
        answer = httpx2.get(f"{server.url()}/v1/jobs/{job_id}/result")
        assert answer.content == b"first answer to api"
        assert len(calls_of(folder, "api")) == 1


def test_invalid_rule_prevents_startup(tmp_path: Path) -> None:
    config = write_rules(tmp_path, NOWHERE, "POST /a/*", "POST /a/b")
    for command in ("serve", "worker"):
        tried = run_to_end(command, "--config", config, folder=tmp_path)
        assert tried.returncode == EXIT_CONFIGURATION
        said = "[[proxy]] 2: POST /a/b overlaps with POST /a/*; a call must match one rule only"
        assert said in tried.stderr
        assert "Traceback" not in tried.stderr


def test_doctor_reports_rules_and_upstreams(service: tuple[str, Path], tmp_path: Path) -> None:
    config = write_rules(tmp_path, service[0], "POST /a/*")
    said = f"POST /a/* is forwarded to {service[0]} (proxy.post-a)"
    assert ("ok", said) in of_area(diagnose(tmp_path, "--config", config), "parts")
    config = write_rules(tmp_path, NOWHERE, "POST /a/*")
    said = f"POST /a/* is forwarded to {NOWHERE} (proxy.post-a), which cannot be reached: "
    found = of_area(diagnose(tmp_path, "--config", config), "parts")
    assert [level for level, words in found if words.startswith(said)] == ["warning"]
    config = write_rules(tmp_path, NOWHERE, "POST /v1/*")
    found = of_area(diagnose(tmp_path, "--config", config), "parts")
    assert [words for level, words in found if level == "problem" and "belongs" in words]


def test_bodies_are_not_held_in_memory(service: tuple[str, Path], tmp_path: Path) -> None:
    size, pieces = 96_000_000, 96

    def body() -> Iterator[bytes]:
        for _ in range(pieces):
            yield b"z" * (size // pieces)

    config = write_rules(tmp_path, service[0], "POST /echoed/*", wait='"1m"')
    with serving(tmp_path, config) as server:
        httpx2.post(f"{server.url()}/echoed/small", content=b"small", timeout=60)
        before = {pid: peak_of(pid) for pid in children_of(server.pid)}
        url = f"{server.url()}/echoed/large"
        with httpx2.stream("POST", url, content=body(), timeout=90) as answer:
            assert sum(len(piece) for piece in answer.iter_bytes()) == size
        for pid, peak in before.items():
            assert peak_of(pid) - peak < 48_000_000, "a body was held in memory"


def peak_of(pid: int) -> int:
    """Return the peak memory of a process, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
