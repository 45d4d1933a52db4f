"""The app that hostile callers use, with handlers under a test's control."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from coatcheck import App, Context, Upload

app = App()


class File(BaseModel):
    name: str
    content_type: str


class Given(BaseModel):
    file: Upload


@app.job(retries=0)
async def echo(ctx: Context, value: JsonValue) -> JsonValue:
    return value


@app.job(retries=0)
async def leave(ctx: Context, file: File) -> None:
    """Store an artifact under the name and type that the caller wants."""
    await ctx.artifact(file.name, b"x", file.content_type)


@app.job(retries=0)
async def say(ctx: Context, words: str) -> None:
    """Report the text wherever a handler can, and fail with it."""
    await ctx.phase(words[:60])
    await ctx.log(words, field=words)
    await ctx.progress(1, 2, words)
    await ctx.emit(words)
    raise RuntimeError(words)
