"""The kinds of jobs that the tests of the HTTP layer submit."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field

from coatcheck import App, Context, Fail, Retry

PATIENCE_S = 30.0

UNUSUAL_RESULTS: dict[str, Any] = {
    "null": None,
    "false": False,
    "long": "x" * 3_000_000,
    "unicode": "naïve \u2028 日本語 🎟️ \x7f",
    "nul": "a\0b",
    "not a number": [float("nan"), float("inf")],
    "half a surrogate": "\ud800",
    "not JSON": object(),
}


class MuteError(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def _raise(error: Exception) -> None:
    raise error


# What careless handlers do, each of which has broken a job queue somewhere.
ODD_ENDINGS: dict[str, Callable[[Any], int | None]] = {
    "progress that is no number": lambda ctx: ctx.progress(float("nan"), 1) and None,
    "progress that JSON cannot write": lambda ctx: ctx.progress(Decimal("0.5"), 1) and None,
    "progress message with half a surrogate": lambda ctx: ctx.progress(0, 1, "\ud800") and None,
    "phase with half a surrogate": lambda ctx: ctx.phase("\ud800") and None,
    "log line with half a surrogate": lambda ctx: ctx.log("\ud800") and None,
    # As the operating system hands out a name that is not UTF-8.
    "error about a file name that is not UTF-8": lambda ctx: _raise(
        ValueError(os.fsdecode(b"caf\xe9.csv"))
    ),
    "error that cannot be told": lambda ctx: _raise(MuteError()),
    "giving up with half a surrogate": lambda ctx: _raise(Fail("odd", "\ud800")),
    "giving up with bytes": lambda ctx: _raise(Fail("odd", b"\xff")),  # type: ignore[arg-type]
    "a retry after no time that is": lambda ctx: _raise(Retry(after=float("nan"))),
    "an integer too long to be read": lambda ctx: 10**5000,
}


class Gate:
    """Holds a handler until the test lets it go; each side waits for the other's signal."""

    def __init__(self) -> None:
        self._entered = threading.Event()
        self._opened = threading.Event()
        self.steps_run: list[str] = []
        self.is_sold_out = False

    def enter(self) -> None:
        """Say that the handler runs; called by the handler."""
        self._entered.set()

    def pass_through(self) -> None:
        """Say that the handler runs, and wait; called by the handler."""
        self.enter()
        assert self._opened.wait(PATIENCE_S), "nobody opened the gate"

    async def entered(self) -> None:
        """Wait until the handler runs."""
        assert await asyncio.to_thread(self._entered.wait, PATIENCE_S), "no handler came"

    def open(self) -> None:
        """Let the handler go on."""
        self._opened.set()


class Order(BaseModel):
    customer: str
    amounts: list[Annotated[int, Field(gt=0)]]
    notes: dict[str, int] = {}


def declare_kinds(gate: Gate) -> App:
    app = App()

    @app.job
    async def echo(ctx: Context, value: Any) -> Any:
        return value

    @app.job(queue="orders", retries=4)
    async def total(ctx: Context, order: Order) -> int:
        return sum(order.amounts)

    @app.job
    async def nothing(ctx: Context) -> None:
        return None

    @app.job
    def gated(ctx: Context) -> str:
        gate.pass_through()
        return "passed"

    @app.job
    async def until_cancelled(ctx: Context) -> None:
        gate.enter()
        await asyncio.Event().wait()

    @app.job
    async def give_up(ctx: Context, message: str) -> None:
        raise Fail("no-stock", message)

    @app.job(retries=0)
    async def crash(ctx: Context, message: str) -> None:
        raise RuntimeError(message)

    @app.job
    async def answer_with(ctx: Context, what: str) -> Any:
        return UNUSUAL_RESULTS[what]

    @app.job(retries=0)
    async def end_oddly_with_others(ctx: Context, how: str) -> int | None:
        return ODD_ENDINGS[how](ctx)

    @app.job(retries=0)
    def end_oddly(ctx: Context, how: str) -> int | None:
        return ODD_ENDINGS[how](ctx)

    declare_kinds_with_steps(app, gate)
    return app


def declare_kinds_with_steps(app: App, gate: Gate) -> None:
    def reserve(article: str) -> dict[str, str]:
        gate.steps_run.append("reserve")
        return {"seat": article.upper()}

    def charge(seat: str) -> str:
        gate.steps_run.append("charge")
        if gate.is_sold_out:
            raise LookupError("there is no seat left")
        return f"paid for {seat}"

    @app.job(retries=0, queue="orders")
    async def ticket(ctx: Context, article: str) -> str:
        """Take two steps, the second of which fails while all is sold out."""
        seat = await ctx.step(reserve, article)
        paid: str = await ctx.step(charge, seat["seat"], key="card")
        return paid

    @app.job
    async def two_events(ctx: Context) -> list[Any]:
        return [await ctx.wait_for("approved"), await ctx.wait_for("approved")]

    @app.job
    async def event_in_time(ctx: Context) -> Any:
        return await ctx.wait_for("approved", timeout="1d")

    @app.job
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep("1d")

    @app.job
    async def parent(ctx: Context) -> Any:
        children = [await ctx.spawn("event_in_time") for _ in range(3)]
        return await ctx.gather(*children)
