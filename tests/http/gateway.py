"""Kinds that workers elsewhere run (kinds_in_node.mjs): here they are only declared."""

from __future__ import annotations

from typing import Any

from coatcheck import App, Context

app = App()


@app.job(retries=4)
async def order(ctx: Context, item: str) -> dict[str, Any]:
    raise NotImplementedError


@app.job(retries=4)
async def refuse(ctx: Context, why: str) -> None:
    raise NotImplementedError


@app.job(retries=4)
async def stumble(ctx: Context, why: str) -> str:
    raise NotImplementedError


@app.job(retries=4)
async def misfit(ctx: Context) -> str:
    raise NotImplementedError
