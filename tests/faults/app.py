"""The app whose processes the fault tests kill. Every start of a handler is written down first."""

from __future__ import annotations

import os
import time
from pathlib import Path

from coatcheck import App, Context, Fail, Retry

app = App()

# Where starts are recorded, and the file whose existence lets `held` jobs go on.
FOLDER = Path(os.environ.get("FAULT_FOLDER", "."))


def record(ctx: Context) -> None:
    line = f"{ctx.job_id} {ctx.attempt} {os.getpid()}\n".encode()
    descriptor = os.open(FOLDER / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line)
    os.close(descriptor)


@app.job
async def quick(ctx: Context, n: int) -> int:
    record(ctx)
    return n * 2


@app.job
def held(ctx: Context, n: int) -> int:
    record(ctx)
    while not (FOLDER / "gate").exists():
        ctx.progress(0, 1, "held")
        time.sleep(0.005)
    return n * 2


@app.job(on_lost="fail")
def held_once(ctx: Context, n: int) -> int:
    return held(ctx, n)


@app.job
async def second_try(ctx: Context, n: int) -> int:
    record(ctx)
    if ctx.attempt == 1:
        raise Retry(after=0.2)
    return n * 2


@app.job
async def hopeless(ctx: Context, n: int) -> int:
    record(ctx)
    raise Fail("hopeless", "this never works")
