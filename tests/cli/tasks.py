"""The app that the tests of the command line serve."""

from __future__ import annotations

import os

from coatcheck import App, Context

app = App()
not_an_app = "a text"


@app.job
async def process_id(ctx: Context) -> int:
    return os.getpid()


@app.job(retries=0)
async def crash(ctx: Context, message: str) -> None:
    raise RuntimeError(message)
