"""The app that the tutorial's server runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

from coatcheck import App, Context

app = App()


@app.job
async def greet(ctx: Context, name: str) -> str:
    return f"hello {name}"


@app.job
async def copy_pages(ctx: Context, folder: str) -> int:
    """Write one page per step. The first attempt hangs after page 3, until its worker is killed."""
    for page in range(1, 6):
        await ctx.step(write_page, folder, page, key=page)
        await ctx.progress(page, 5, f"page {page}")
        if page == 3 and ctx.attempt == 1:
            await asyncio.Event().wait()
    return 5


def write_page(folder: str, page: int) -> None:
    with Path(folder, "pages.txt").open("a") as file:
        file.write(f"page {page}\n")


@app.job
async def wait_for_cancel(ctx: Context) -> None:
    await ctx.progress(0, 1, "started")
    await asyncio.Event().wait()


app.schedule("morning", greet, "morning", cron="0 6 * * *", timezone="Europe/Berlin")
