"""The app of a server that is killed during a task."""

from __future__ import annotations

import time
from pathlib import Path

from coatcheck import App, Context

app = App()


@app.job(retries=5)
def fetch(ctx: Context, path: str) -> str:
    """Wait for a file, and return what it says."""
    ctx.progress(ctx.attempt, None, "waits")
    while not Path(path).exists() and not ctx.cancelled:
        time.sleep(0.02)
    return Path(path).read_text()
