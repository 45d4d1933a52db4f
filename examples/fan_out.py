"""A report with many parts, each its own job.

    coatcheck serve examples/fan_out.py:app
    coatcheck submit report '["north", "south", "east"]' --wait

The parts run in parallel, on all workers; each is retried separately.
"""

from __future__ import annotations

from coatcheck import App, Context

app = App()


@app.job(retries=5)
def region(ctx: Context, name: str) -> int:
    return len(name) * 100


@app.job
async def report(ctx: Context, regions: list[str]) -> dict[str, int]:
    parts = [await ctx.spawn("region", name) for name in regions]
    totals = await ctx.gather(*parts)  # uses no slot while it waits; results are in order
    return dict(zip(regions, totals, strict=True))
