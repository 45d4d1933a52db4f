"""A real server that draws within its requests: what it starts for that ends with it."""

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


def test_what_draws_for_a_server_ends_with_it_and_is_started_again(tmp_path: Path) -> None:
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


def test_a_server_alone_starts_nothing(tmp_path: Path) -> None:
    with running("serve", "--no-worker", "--port", "0", folder=tmp_path) as server:
        url = server.url()
        with running("worker", folder=tmp_path):
            draw(url)
            draw(url)
            assert children_of(server.pid) == {}
