"""Kinds whose handlers run in processes, for workers that are killed around them.

They have an app of their own: a worker starts such processes as soon as it has such a kind, and
each costs the start of an interpreter, which other rounds need not pay.
"""

from __future__ import annotations

import asyncio

from coatcheck import App, Context

from .app import began, doubled, plus_one, returned

app = App()


@app.job(retries=1000, isolation="process")
def apart(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    for turn in range(2):
        n = ctx.step(plus_one, ctx, n, wait=turn == 1)
    return returned(ctx, ctx.step(doubled, ctx, n))


@app.job(retries=1000, isolation="process")
async def apart_async(ctx: Context, n: int) -> dict[str, int]:
    began(ctx)
    for turn in range(2):
        n = await ctx.step(plus_one, ctx, n, wait=turn == 1)
    await asyncio.sleep(0.005)
    return returned(ctx, await ctx.step(doubled, ctx, n))
