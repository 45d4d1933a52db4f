"""Durable steps on any store: the kind, and running many."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from benchmarks.peers import protocol
from coatcheck import App, Context
from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import Submission


async def nothing(number: int) -> int:
    """Do nothing, as the function of a step."""
    return number


async def steps(ctx: Context, data: dict[str, int]) -> float:
    """Run the given number of steps and return the seconds."""
    began = time.monotonic()
    for number in range(data["n"]):
        await ctx.step(nothing, number)
    return time.monotonic() - began


def declare_in(app: App) -> None:
    """Declare the kind in an app."""
    app.job(steps)


async def take(engine: Engine, options: argparse.Namespace) -> dict[str, Any]:
    """Run `count` steps in each of `callers` concurrent jobs."""
    asked = Submission("steps", json.dumps({"n": options.count}))
    warm = await engine.submit(Submission("steps", json.dumps({"n": 10})))
    await engine.wait(warm.id, 30)
    start, cpu = time.monotonic(), protocol.cpu_seconds()
    submitted = [await engine.submit(asked) for _ in range(options.callers)]
    ended = [await engine.wait(job.id, protocol.PATIENCE_S) for job in submitted]
    seconds, cpu = time.monotonic() - start, protocol.cpu_seconds() - cpu
    assert all(job.result is not None for job in ended), "a job has not succeeded"
    for job in ended:
        taken = await engine.store.jobs.list_steps(job.tenant, job.id)
        assert len(taken) == options.count, f"{len(taken)} steps on record"
    if options.callers == 1:
        seconds = json.loads(ended[0].result or "null")
    return protocol.rate({"jobs": options.count * options.callers, "seconds": seconds}, cpu)
