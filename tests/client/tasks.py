"""The app that the tests of the client talk to."""

from __future__ import annotations

import asyncio
from datetime import date, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from coatcheck import App, Context, Fail, Retry

app = App()


class Booking(BaseModel):
    guest: str
    arrival: date
    nights: int = 1


@app.job
async def echo(ctx: Context, value: Any) -> Any:
    return value


@app.job
async def weekday(ctx: Context, moment: datetime) -> str:
    return f"{moment:%A}"


@app.job
async def book(ctx: Context, booking: Booking) -> Booking:
    return booking.model_copy(update={"nights": booking.nights + 1})


@app.job
async def give_up(ctx: Context) -> None:
    raise Fail("sold-out", "no seats left")


@app.job(retries=0)
async def crash(ctx: Context) -> None:
    raise RuntimeError("out of luck")


@app.job(retries=0, timeout="50ms")
async def too_slow(ctx: Context) -> None:
    await asyncio.Event().wait()


@app.job
async def second_try(ctx: Context) -> int:
    if ctx.attempt == 1:
        raise Retry("not yet", after=0)
    return ctx.attempt


@app.job
def meet(ctx: Context, pipe: str) -> str:
    """Wait at a named pipe for what the test writes into it, and return that."""
    return Path(pipe).read_text(encoding="utf-8")


@app.job
async def report_and_wait(ctx: Context, pipe: str) -> None:
    """Tell the test through a named pipe that the handler runs, then wait to be cancelled."""
    await asyncio.to_thread(Path(pipe).write_text, "running", encoding="utf-8")
    await asyncio.Event().wait()


@app.job
async def chat(ctx: Context, lines: int) -> int:
    """Say so many lines into the log."""
    for number in range(lines):
        await ctx.log("line", number=number)
    return lines


def greet(name: str) -> str:
    return f"hello {name}"


@app.job
async def ask(ctx: Context, name: str) -> list[Any]:
    """Take a step, wait for an answer, take another step."""
    greeting = await ctx.step(greet, name)
    return [greeting, await ctx.wait_for("answer"), await ctx.step(greet, "again")]


@app.job(retries=0)
def needs_file(ctx: Context, path: str) -> str:
    """Take a step that fails until there is a file."""
    ctx.step(greet, "first")
    text: str = ctx.step(Path(path).read_text, "utf-8", key="file")
    return text


@app.job
def say_and_meet(ctx: Context, pipe: str) -> str:
    """Say something, wait at a named pipe for what the test writes into it, and say that too."""
    ctx.log("before")
    said = Path(pipe).read_text(encoding="utf-8")
    ctx.log("after", said=said)
    return said


@app.job
async def leave_file(ctx: Context, size: int) -> None:
    await ctx.artifact("data.bin", bytes(range(256)) * (size // 256))


@app.job
async def long_text(ctx: Context, size: int) -> str:
    return "x" * size


@app.job
async def long_steps(ctx: Context, size: int) -> None:
    """Take steps that are too large to be shown together."""
    for letter in "ab":
        await ctx.step(str.__mul__, letter, size, key=letter)
