"""What the tests of the cockpit serve: kinds that stop where a test wants to look at them.

A gate is a file in the working directory: what waits at one goes on when the file is there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from coatcheck import App, Context, Fail
from coatcheck.surfaces.render.surface import RenderSurface

POLL_S = 0.02

app = App()
app.use(RenderSurface({}))


async def passed(gate: str) -> None:
    """Wait until a gate is open."""
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - it is opened by another process
        await asyncio.sleep(POLL_S)


class Month(BaseModel):
    """What a report is about."""

    month: str = Field(description="As year and month", pattern=r"^\d{4}-\d{2}$")
    pages: int = Field(default=4, ge=1, le=50)
    style: Literal["plain", "rich"] = "plain"
    gate: str | None = None


@app.job(retries=0)
async def report(ctx: Context, about: Month) -> dict[str, Any]:
    """Write a report, page by page."""
    for page in range(1, about.pages + 1):
        await ctx.progress(page, about.pages, f"page {page}")
        await ctx.log(f"page {page} is written", words=100 * page)
        if about.gate is not None and page == about.pages - 1:
            await passed(about.gate)
    await ctx.emit({"pages": about.pages})
    return {"month": about.month, "pages": about.pages, "style": about.style}


class Order(BaseModel):
    """What is bought."""

    item: str
    price: int = 100


CHARGED_BEFORE: set[str] = set()


class CardRefused(Exception):
    """The bank says no, this once."""


@app.job(retries=2)
async def order(ctx: Context, asked: Order) -> str:
    """Buy something, in steps."""
    reserved = await ctx.step(reserve, asked.item)
    await ctx.step(charge, ctx.job_id, asked.price, retries=3)
    await ctx.sleep(0.2)
    await ctx.gather(await ctx.spawn("parcel", asked.item))
    return str(await ctx.step(thank, reserved))


async def reserve(item: str) -> str:
    await asyncio.sleep(0.05)
    return f"{item} on shelf 7"


async def charge(job_id: str, price: int) -> dict[str, Any]:
    if price > 1000:
        raise Fail("card-refused", f"the bank refuses {price}")
    if job_id not in CHARGED_BEFORE:
        CHARGED_BEFORE.add(job_id)
        raise CardRefused("try again")
    await asyncio.sleep(0.1)
    return {"charged": price, "currency": "EUR"}


async def thank(reserved: str) -> str:
    return f"thanks for {reserved}"


@app.job(queue="parcels")
async def parcel(ctx: Context, item: str) -> str:
    """Pack something."""
    await ctx.progress(1, 1, f"packed {item}")
    return f"parcel with {item}"


@app.job(retries=0)
async def hold(ctx: Context, gate: str) -> str:
    """Wait at a gate."""
    await ctx.progress(0, 1, f"at {gate}")
    await passed(gate)
    return gate


@app.job(retries=0)
async def echo_everywhere(ctx: Context, text: str) -> Any:
    """Say a text in every place where a job can say something."""
    await ctx.progress(1, 2, text)
    await ctx.phase("phase")
    await ctx.log(text, note=text)
    await ctx.emit({"stdout": text})
    await ctx.step(_said, text, key=text[:100])
    await ctx.artifact("page.html", text.encode(), "text/html")
    await ctx.artifact("picture.svg", SVG, "image/svg+xml")
    raise ValueError(text)


async def _said(text: str) -> str:
    return text


SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40">'
    b'<script>parent.document.title = "run"</script>'
    b'<image href="/v1/jobs?from=picture" width="1" height="1"/>'
    b'<rect width="40" height="40" fill="teal"/></svg>'
)


@app.job(retries=0, concurrency_key=lambda text: text[:60])
async def give_back(ctx: Context, text: str) -> Any:
    """Say a text as progress, and return it once a gate is open; one of each at a time."""
    await ctx.progress(1, 2, text)
    await passed("given-back.go")
    return {"text": text, text[:100]: [text]}


@app.job(retries=3)
async def climb(ctx: Context, gate: str) -> str:
    """Do a step, wait at a gate, and do another."""
    await ctx.step(_said, "first")
    await ctx.log("the first is done")
    await passed(gate)
    await ctx.step(_said, "second")
    await ctx.log("the second is done")
    return gate


@app.job
async def family(ctx: Context, generations: int) -> int:
    """Have a child, which has children of its own."""
    if generations:
        await ctx.gather(await ctx.spawn("family", generations - 1))
    return generations


@app.job
async def scan(ctx: Context, size: int) -> str:
    """Leave a file behind that is no text, and a result of some size."""
    await ctx.artifact("scan.bin", bytes(range(256)), "application/octet-stream")
    return "x" * size


@app.job(retries=0)
async def refuse(ctx: Context, why: str) -> None:
    """Fail."""
    raise Fail("refused", why)
