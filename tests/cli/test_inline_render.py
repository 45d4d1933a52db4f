"""Inline rendering in a real server: its render process ends with the server."""

from __future__ import annotations

import itertools
from pathlib import Path

import httpx2

from tests.worker.rendezvous import ProcessHandle

from .proc_files import children_of
from .processes import Running, running

PROCESS = "coatcheck.worker.processes"
numbers = itertools.count()


def draw(url: str) -> dict[str, str]:
    source = f"graph TD; A{next(numbers)} --> B"
    body = {"source": source, "format": "mermaid"}
    answer = httpx2.post(f"{url}/render?mode=sync", json=body, timeout=60)
    assert answer.status_code == 200, answer.text
    said: dict[str, str] = answer.json()
    return said


def api_of(server: Running) -> int:
    [api] = (pid for pid, command in children_of(server.pid).items() if "--no-worker" in command)
    return api


def process_of(api: int) -> int:
    [at_hand] = (pid for pid, command in children_of(api).items() if PROCESS in command)
    return at_hand


def test_render_process_ends_with_the_server_and_is_restarted(tmp_path: Path) -> None:
    with running("serve", "--port", "0", folder=tmp_path, COATCHECK_LOG_FORMAT="json") as server:
        url = server.url()
        assert httpx2.get(f"{url}{draw(url)['url']}").status_code == 200
        first = process_of(api_of(server))
        for _ in range(3):
            draw(url)
        life, api = ProcessHandle(first), ProcessHandle(api_of(server))
        api.kill()
        life.wait()
        assert server.url() == url, "there is another"
        assert httpx2.get(f"{url}{draw(url)['url']}").status_code == 200
        last = ProcessHandle(process_of(api_of(server)))
        assert server.stop() == 0
        last.wait()


def test_server_without_requests_starts_no_render_process(tmp_path: Path) -> None:
    with running("serve", "--no-worker", "--port", "0", folder=tmp_path) as server:
        url = server.url()
        with running("worker", folder=tmp_path):
            draw(url)
            draw(url)
            assert children_of(server.pid) == {}
