"""The kinds of jobs that the tests call as tools."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from coatcheck import App, Context, Fail
from coatcheck.model.options import SurfaceOptions


class Order(BaseModel):
    item: str
    count: int = 1


class Tree(BaseModel):
    name: str
    below: list[Tree] = []


class Gate:
    """Holds a handler until the test lets it go, and says when it runs."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()


def declare_kinds(gate: Gate) -> App:
    app = App()

    @app.job
    async def buy(ctx: Context, order: Order) -> dict[str, Any]:
        """Buy something."""
        return {"bought": order.item, "count": order.count, "discount": None}

    @app.job
    async def shout(ctx: Context, text: str) -> str:
        return text.upper()

    @app.job(retries=0)
    async def broken(ctx: Context) -> None:
        raise Fail("no-luck", "it was not to be")

    @app.job
    async def climb(ctx: Context, tree: Tree) -> str:
        return tree.name

    @app.job("shop:count")
    async def count(ctx: Context, things: list[int] | None) -> int:
        return len(things or [])

    @app.job
    async def large(ctx: Context, size: int) -> str:
        return "x" * size

    @app.job("job_status")
    async def of_the_same_name(ctx: Context) -> str:
        return "a kind"

    @app.job(surface=SurfaceOptions(internal=True))
    async def of_a_surface(ctx: Context) -> None:
        """Do what only a surface asks for."""

    @app.job
    async def held(ctx: Context, text: str) -> str:
        await ctx.progress(1, 3, "one")
        gate.entered.set()
        await gate.opened.wait()
        await ctx.progress(3, 3, "three")
        return text

    return app
