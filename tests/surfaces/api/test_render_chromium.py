"""Diagrams over HTTP, drawn by the engine that the operator has chosen."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.surfaces.render.drawing.chromium import engine
from coatcheck.surfaces.render.surface import RenderSurface
from tests.debian import program_of
from tests.surfaces.render.drawing.conftest import IN_A_BROWSER, INSTALLING_S

from .conftest import Serve

pytestmark = [pytest.mark.anyio, *IN_A_BROWSER]

CHOSEN = {"RENDER_ENGINE": "chromium"}
FORMULA = {"source": 'flowchart LR\n A["$$x^2$$"]', "format": "mermaid", "outputType": "svg"}
PATIENCE_S = 60.0


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    if program_of("chromium", "chromium", INSTALLING_S) is None:
        pytest.skip("there is no Chromium here, and Debian's cannot be installed")


async def test_formulas_are_drawn_by_the_chosen_engine(serve: Serve) -> None:
    async with serve(RenderSurface({})) as (http, _):
        refused = await http.post("/render?mode=sync", json=FORMULA)
        assert refused.status_code == 400
        assert "formulas" in refused.json()["error"]
    async with serve(RenderSurface(CHOSEN)) as (http, _):
        for output in ("svg", "png"):
            answer = await http.post("/render?mode=sync", json={**FORMULA, "outputType": output})
            assert answer.status_code == 200, answer.text
            picture = await http.get(answer.json()["url"])
            assert (b"KaTeX_Math" in picture.content) == (output == "svg")
        wrong = {**FORMULA, "source": "flowchart LR\n A --> B{x"}
        answer = await http.post("/render?mode=sync", json=wrong)
        assert (answer.status_code, answer.json()) == (
            400,
            {"error": "line 2, column 10: the end is not allowed here\n   A --> B{x\n           ^"},
        )


async def test_cache_distinguishes_engines(serve: Serve) -> None:
    plain = {**FORMULA, "source": "flowchart LR\n A --> B"}
    for environment in ({}, CHOSEN):
        async with serve(RenderSurface(environment)) as (http, _):
            first = await http.post("/render?mode=sync", json=plain)
            assert "cached" not in first.json()
            again = await http.post("/render?mode=sync", json=plain)
            assert again.json()["cached"] is True


async def test_job_submitted_directly_uses_the_chosen_engine(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RENDER_ENGINE", "chromium")
    async with serve(RenderSurface()) as (http, _):
        body = {"kind": "render", "input": {"source": FORMULA["source"], "format": "mermaid"}}
        job = (await http.post("/v1/jobs", json=body)).json()
        ended = (await http.get(f"/v1/jobs/{job['id']}?wait=60")).json()
        assert ended["state"] == "succeeded", ended


async def test_stopped_worker_leaves_no_browser(serve: Serve) -> None:
    async with serve(RenderSurface(CHOSEN)) as (http, _):
        before = browsers()
        await http.post("/render?mode=sync", json=FORMULA)
        mine = browsers() - before
        assert mine
        ends = [os.pidfd_open(pid) for pid in mine]
    for end in ends:
        assert select.select([end], [], [], PATIENCE_S)[0], "the browser is still running"
        os.close(end)


def browsers() -> set[int]:
    """Return the browsers of handlers, which are two processes below this one, and their
    supervisors.
    """
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        pid = waiting.pop()
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            children = [int(child) for child in task.read_text().split()]
            waiting += children
            found |= {child for child in children if b"--user-data-dir=" in command(child)}
    return found


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def test_missing_engine_is_reported_at_startup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(engine.PROGRAM, "/nowhere/chromium")
    with pytest.raises(ConfigurationError) as caught:
        RenderSurface(CHOSEN)
    assert str(caught.value) == (
        "RENDER_ENGINE is chromium, which cannot draw on this machine: it needs a program at "
        f"/nowhere/chromium, which {engine.PROGRAM} names"
    )


def test_active_engine_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    says = [part.says for part in RenderSurface(CHOSEN).optional_parts()]
    assert says[0].startswith("mermaid could be drawn by merman ")
    assert says[1].startswith("mermaid is drawn by chromium with Mermaid 11.")
    monkeypatch.setenv(engine.PROGRAM, "/nowhere/chromium")
    parts = list(RenderSurface({}).optional_parts())
    assert parts[0].says.startswith("mermaid is drawn by merman ")
    assert "mermaid could be drawn by chromium" in parts[1].says
    assert "which needs a program at /nowhere/chromium" in parts[1].says
    assert not parts[1].missing  # it is optional
