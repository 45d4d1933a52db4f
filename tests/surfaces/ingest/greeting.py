"""A job that can run in a thread or in a process of its own."""

from __future__ import annotations

from coatcheck import Context


def greet(ctx: Context, name: str) -> str:
    """Greet somebody, in a step."""
    ctx.progress(1, 2, "bowing")
    greeted: str = ctx.step(greeting, name)
    return greeted


def greeting(name: str) -> str:
    return f"good day, {name}"
