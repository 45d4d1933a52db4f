"""The app of the fault tests: it logs every handler call and every result.

Handlers have a failpoint of their own, `handler.began`, beside the worker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from coatcheck import App, Context, Fail, Retry
from coatcheck.testing.checker import BEGAN, RAN, RETURNED, EffectLog
from coatcheck.worker.failpoints import Failpoint, no_failpoint

app = App()

BULK = 100_000


class Surroundings:
    """What a process sets before it runs jobs: where they write, and who strikes at points."""

    failpoint: Failpoint = staticmethod(no_failpoint)

    @property
    def folder(self) -> Path:
        """Where effects are recorded; a file `gate` there lets `held` jobs go on."""
        return Path(os.environ.get("FAULT_FOLDER", "."))


surroundings = Surroundings()


def fence_of(ctx: Context) -> int:
    """Return the fence of a handler's claim, which handlers have no business with."""
    return ctx._claim.lease.fence


def began(ctx: Context) -> None:
    _write(ctx, BEGAN)
    surroundings.failpoint("handler.began")


def returned(ctx: Context, n: int) -> dict[str, int]:
    """Return a result that tells which claim it is of, and write it down."""
    result = {"n": n, "fence": fence_of(ctx), "pid": os.getpid()}
    _write(ctx, RETURNED, json.dumps(result, separators=(",", ":")))
    return result


def _write(ctx: Context, what: str, value: str = "") -> None:
    EffectLog(surroundings.folder / "effects").write(
        ctx.job_id, ctx.attempt, fence_of(ctx), what, value
    )


@app.job(retries=1000)
async def quick(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    return returned(ctx, n)


@app.job(retries=1000)
def threaded(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    ctx.log("in a thread", fence=fence_of(ctx))
    return returned(ctx, n)


@app.job(retries=1000)
async def slow(ctx: Context, n: int) -> dict[str, int]:
    """Work that takes a moment, so that faults find it running; `n` is in milliseconds."""
    began(ctx)
    await asyncio.sleep(n / 1000)
    await ctx.log("almost done", fence=fence_of(ctx))
    return returned(ctx, n)


@app.job(retries=1000)
def held(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    while not (surroundings.folder / "gate").exists():
        ctx.progress(0, 1, "held")
        time.sleep(0.005)
    return returned(ctx, n)


@app.job(on_lost="fail")
def held_once(ctx: Context, n: int) -> dict[str, int]:
    return held(ctx, n)


@app.job(retries=1000)
async def second_try(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    if ctx.attempt == 1:
        raise Retry(after=0.05)
    return returned(ctx, n)


@app.job(retries=1000)
async def until_open(ctx: Context, n: int) -> dict[str, int]:
    """Work that is tried again until there is a gate."""
    began(ctx)
    if not (surroundings.folder / "gate").exists():
        raise Retry(after=0.3)
    return returned(ctx, n)


@app.job
async def hopeless(ctx: Context, n: int) -> int:
    began(ctx)
    raise Fail("hopeless", "this never works")


@app.job(retries=0)
async def frail(ctx: Context, n: int) -> dict[str, int]:
    """One attempt: it fails with its worker."""
    began(ctx)
    return returned(ctx, n)


# --- jobs that do things once and for all


def plus_one(ctx: Context, n: int) -> int:
    ran(ctx)
    return n + 1


async def doubled(ctx: Context, n: int) -> int:
    ran(ctx)
    return n * 2


def ran(ctx: Context) -> None:
    """Write down that the body of a step was entered."""
    _write(ctx, RAN, ctx.step_key.partition("/")[2])


def worked_out(n: int) -> int:
    """What comes of `pipeline` and its twin, undisturbed."""
    return n + 3 + 3 * (2 * (n + 3) + 1)


def worked_out_apart(n: int) -> int:
    """What comes of the kinds of `isolated.py`, undisturbed."""
    return 2 * (n + 2)


@app.job(retries=1000)
async def pipeline(ctx: Context, n: int) -> dict[str, int]:
    """Steps one after the other, of which one is not waited for, steps side by side, then other
    jobs.
    """
    began(ctx)
    for turn in range(3):
        n = await ctx.step(plus_one, ctx, n, wait=turn != 1)
    parts = await asyncio.gather(*(ctx.step(doubled, ctx, n, key=key) for key in range(3)))
    handles = [await ctx.spawn("leaf", part) for part in parts]
    return returned(ctx, n + sum(leaf["n"] for leaf in await ctx.gather(*handles)))


@app.job(retries=1000)
def pipeline_in_a_thread(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    for turn in range(3):
        n = ctx.step(plus_one, ctx, n, wait=turn != 1)
    parts = [ctx.step(doubled, ctx, n) for _ in range(3)]
    handles = [ctx.spawn("leaf", part) for part in parts]
    return returned(ctx, n + sum(leaf["n"] for leaf in ctx.gather(*handles)))


@app.job(retries=1000)
async def errand(ctx: Context, n: int) -> dict[str, int]:
    """A little of everything: a step, another job that is waited for, an event from outside."""
    began(ctx)
    n = await ctx.step(plus_one, ctx, n)
    [found] = await ctx.gather(await ctx.spawn("leaf", n))
    await ctx.wait_for("go")
    await ctx.log("told to go", fence=fence_of(ctx))
    return returned(ctx, found["n"])


def bulk(ctx: Context, n: int) -> str:
    ran(ctx)
    return str(n) * BULK


@app.job(retries=1000)
async def bulky(ctx: Context, n: int) -> dict[str, int]:
    """Steps whose results are too large for a row."""
    began(ctx)
    parts = [await ctx.step(bulk, ctx, part, key=part) for part in range(n)]
    assert parts == [str(part) * BULK for part in range(n)]
    return returned(ctx, sum(map(len, parts)))


@app.job(retries=1000)
async def leaf(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    return returned(ctx, await ctx.step(plus_one, ctx, n))
