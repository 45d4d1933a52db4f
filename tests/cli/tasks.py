"""The app that the CLI tests serve."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import JsonValue

from coatcheck import App, Context, Fail

app = App()
not_an_app = "a text"


@app.job
async def process_id(ctx: Context) -> int:
    return os.getpid()


@app.job(retries=0)
async def crash(ctx: Context, message: str) -> None:
    raise RuntimeError(message)


@app.job(keep_succeeded="1h")
async def echo(ctx: Context, value: JsonValue) -> JsonValue:
    return value


@app.job(retries=0, queue="slow")
def gated(ctx: Context, gate: str) -> str:
    """Report progress, then wait until the other end of a named pipe is opened."""
    ctx.phase("loading")
    ctx.log("has begun", attempt=ctx.attempt)
    ctx.progress(1, 2, "half [bold]way[/bold] \x1b[31m")
    return Path(gate).read_text()


def count(text: str) -> int:
    return len(text)


@app.job(retries=0)
async def ask(ctx: Context, question: str) -> list[JsonValue]:
    """Run a step, then wait for an event."""
    length = await ctx.step(count, question)
    return [length, await ctx.wait_for("answer")]


@app.job(retries=0)
def needs_file(ctx: Context, path: str) -> str:
    """Run a step that fails until a file exists."""
    ctx.step(count, path)
    text: str = ctx.step(Path(path).read_text, "utf-8", key="file")
    return text


@app.job(retries=0)
async def refuse(ctx: Context, message: str) -> None:
    raise Fail("refused", message)
