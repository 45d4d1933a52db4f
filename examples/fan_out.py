"""A report made of many parts, each a job of its own.

    coatcheck serve examples/fan_out.py:app
    coatcheck submit report '["north", "south", "east"]' --wait

The parts run side by side, on as many workers as there are; each is retried by itself.
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
    totals = await ctx.gather(*parts)  # waits, and holds no slot; results come in order
    return dict(zip(regions, totals, strict=True))
