"""The examples on the Ollama queue run."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from coatcheck.surfaces.foreman.settings import KEYS, ForemanSettings, from_table
from tests.surfaces.foreman.ollama_shim import serving_ollama

from .pages import ROOT, blocks, run_curl, write_python_files
from .test_examples import serving

PAGE = ROOT / "docs/how-to/ollama-queue.md"


def of(language: str) -> list[str]:
    return [block.text for block in blocks(PAGE) if block.language == language]


@contextmanager
def an_ollama() -> Iterator[str]:
    """Run a stand-in for Ollama in a thread."""
    ready, url = threading.Event(), ""
    stop, loop = asyncio.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        nonlocal url
        async with serving_ollama() as upstream:
            url = upstream.url
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(30)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_ollama_queue(tmp_path: Path) -> None:
    _, submit, show = of("sh")
    # Without an app the surfaces are served.
    settings = ("--concurrency=4",)
    with (
        an_ollama() as upstream,
        serving(tmp_path, *settings, FOREMAN_OLLAMA_URL=upstream) as url,
    ):
        assert write_python_files(PAGE, tmp_path, url) == ["ask.py", "ask_too.py"]
        for name in ("ask.py", "ask_too.py"):
            asked = subprocess.run(
                [sys.executable, name],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=True,
            )
            assert len(asked.stdout.strip()) > 4, asked
        accepted = run_curl(submit.strip().replace("http://127.0.0.1:8080", url))
        job_id = accepted.json()["job_id"]
        httpx2.get(f"{url}/v1/jobs/{job_id}?wait=60", timeout=90)
        here = show.strip().replace("http://127.0.0.1:8080", url)
        shown = run_curl(here.replace("01KA4F0Z3T8W2B6M9N4Q7R1S5V", job_id)).json()
        assert (shown["state"], shown["result"]["done"]) == ("done", True)


def test_every_setting_is_on_the_page_and_in_the_table() -> None:
    listed = {
        line.split("`")[1]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `FOREMAN_")
    }
    assert listed == set(KEYS.values())
    [example] = of("toml")
    read = ForemanSettings.read(from_table(tomllib.loads(example)["foreman"]))
    assert read.targets == ("http://laptop:11434", "http://tower:11434")
