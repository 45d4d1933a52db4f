"""The app of the soak test: every kind of handler, with a short retention."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from coatcheck import App, Context, Fail, Retry

app = App()

Handler = TypeVar("Handler", bound=Callable[..., Any])


def job(**more: Any) -> Callable[[Handler], Handler]:
    """Declare a kind whose jobs are kept for a moment only."""
    return app.job(keep_succeeded="20s", keep_failed="20s", **more)


def plus_one(n: int) -> int:
    return n + 1


@job()
async def on_loop(ctx: Context, n: int) -> int:
    await ctx.progress(n, n)
    return n


@job()
def in_thread(ctx: Context, n: int) -> int:
    ctx.log("in a thread", n=n)
    return n


@job(isolation="process")
def in_process(ctx: Context, n: int) -> int:
    return int(ctx.step(plus_one, n)) - 1


@job()
async def large(_ctx: Context, text: str) -> str:
    return text[::-1]


@job()
async def leaves_a_file(ctx: Context, n: int) -> int:
    await ctx.artifact("n.bin", n.to_bytes(4) * 50_000)
    return n


@job(retries=1)
async def second_try(ctx: Context, n: int) -> int:
    if ctx.attempt == 1:
        raise Retry(after=0.05)
    return n


@job()
async def hopeless(_ctx: Context, n: int) -> int:
    raise Fail("hopeless", f"{n} never works")


@job()
async def family(ctx: Context, n: int) -> int:
    children = [await ctx.spawn("on_loop", part) for part in range(n)]
    return sum(await ctx.gather(*children))


@job()
async def asks(ctx: Context, n: int) -> Any:
    first = await ctx.step(plus_one, n)
    await ctx.emit({"first": first})
    return await ctx.wait_for("answer", timeout="1m")


@job()
async def patient(_ctx: Context, n: int) -> int:
    await asyncio.sleep(30)
    return n


@job()
def ticks(_ctx: Context) -> None:
    """What a schedule runs."""
