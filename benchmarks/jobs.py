"""The app under test: the no-op job of every system, and jobs that measure from inside."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

from benchmarks import stepping
from coatcheck import App, Context

app = App()
stepping.declare_in(app)

# Start times of `stamp` handlers by the number in their input, for callers in the same process.
started: dict[int, float] = {}
called = threading.Event()


@app.job
async def job(_ctx: Context, data: dict[str, int]) -> dict[str, int]:
    """Do nothing and return the input."""
    return data


@app.job
def job_in_thread(_ctx: Context, data: dict[str, int]) -> dict[str, int]:
    """Do nothing, in a thread."""
    return data


@app.job(isolation="process")
def job_in_process(_ctx: Context, data: dict[str, int]) -> dict[str, int]:
    """Do nothing, in a process."""
    return data


@app.job(isolation="process")
def stamp_in_process(_ctx: Context, _data: dict[str, int]) -> float:
    """Return the start time of the handler in its process."""
    return time.monotonic()


@app.job
def stamp_in_thread(_ctx: Context, _data: dict[str, int]) -> float:
    """Return the start time of the handler in its thread."""
    return time.monotonic()


@app.job
async def stamp(_ctx: Context, data: dict[str, int]) -> float:
    """Return the start time of the handler; all processes share the monotonic clock."""
    now = time.monotonic()
    started[data["n"]] = now
    called.set()
    return now


@app.job
async def steps_then_wait(ctx: Context, data: dict[str, int]) -> None:
    """Run the given number of steps, then wait for an event."""
    for number in range(data["n"]):
        await ctx.step(stepping.nothing, number)
    await ctx.wait_for("go")


@app.job
async def fan_out(ctx: Context, data: dict[str, int]) -> int:
    """Spawn the given number of jobs and count their results."""
    children = await asyncio.gather(
        *(ctx.spawn("job", {"n": number}, key=number) for number in range(data["n"]))
    )
    return len(await ctx.gather(*children))


@app.job(retries=0)
def compute(_ctx: Context, seconds: float) -> int:
    """Keep a core busy in pure Python, which holds the interpreter."""
    until = time.monotonic() + seconds
    turns = 0
    while time.monotonic() < until:
        for _ in range(10_000):
            turns += 1
    return turns


@app.job
async def leave_file(ctx: Context, path: str) -> None:
    """Write an artifact."""
    await ctx.artifact("file", Path(path))
