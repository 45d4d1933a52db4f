"""Crash: a job survives its worker. Recorded steps are not repeated."""

from __future__ import annotations

from pathlib import Path

from coatcheck import App, Client, Context
from coatcheck.testing import LiveServer, run_inline

app = App()


@app.job
async def add(ctx: Context, numbers: list[int]) -> int:
    total = 0
    for number in numbers:
        total = await ctx.step(sum, [total, number])
    return total


def test_inline_a_crash_costs_an_attempt_and_no_recorded_step() -> None:
    run = run_inline(app, "add", [1, 2, 3], crash={1: 2})  # in the first claim, after two steps

    assert (run.state, run.result) == ("succeeded", 6)
    assert (run.attempts, run.crashes) == (2, 1)


def test_a_real_worker_killed_with_sigkill_loses_nothing(
    server: LiveServer, client: Client, tmp_path: Path
) -> None:
    handle = client.submit("copy_pages", str(tmp_path))
    for event in handle.events():
        if event.type == "progress" and event.data["done"] == 3:
            break
    server.kill_worker(handle.id)

    assert handle.result(timeout=60) == 5
    written = (tmp_path / "pages.txt").read_text().splitlines()
    assert written == [f"page {number}" for number in range(1, 6)]
    assert client.get(handle.id)["attempt"] == 2
