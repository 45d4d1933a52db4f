"""Kinds whose schemas use much of what JSON Schema has, for tests of the API's description."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coatcheck import App, Context, Fail


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid")

    street: str = Field(min_length=1, max_length=80)
    zip_code: str = Field(pattern=r"^[0-9]{5}$")


class Line(BaseModel):
    article: str
    count: Annotated[int, Field(ge=1, le=100)] = 1
    size: Size = Size.SMALL


class Parcel(BaseModel):
    to: Address
    lines: Annotated[list[Line], Field(min_length=1, max_length=5)]
    note: str | None = None
    inside: list[Parcel] = []


class Circle(BaseModel):
    shape: Literal["circle"]
    radius: Annotated[float, Field(gt=0, lt=1e6)]


class Box(BaseModel):
    shape: Literal["box"]
    width: int
    height: int


Shape = Annotated[Circle | Box, Field(discriminator="shape")]


def interesting_app() -> App:
    """Declare kinds that end well, badly and not at all."""
    app = App()

    @app.job("parcels:send", queue="parcels", retries=0)
    async def send(ctx: Context, parcel: Parcel) -> Parcel:
        return parcel

    @app.job
    async def area(
        ctx: Context, shape: Annotated[Circle | Box, Field(discriminator="shape")]
    ) -> float:
        return shape.radius**2 if isinstance(shape, Circle) else float(shape.width * shape.height)

    @app.job
    async def days(ctx: Context, given: list[date] | dict[str, int] | None) -> dict[str, int]:
        return {"given": len(given or [])}

    @app.job
    async def anything(ctx: Context, value: Any) -> Any:
        return value

    @app.job
    async def nothing(ctx: Context) -> None:
        await ctx.log("nothing was done")

    @app.job(retries=0)
    async def refuse(ctx: Context, why: str) -> None:
        raise Fail("refused", why or "no reason")

    @app.job(queue="later")
    async def wait_for_it(ctx: Context, tuple_: tuple[int, str]) -> list[int]:
        return [tuple_[0]]

    def halve(number: int) -> float:
        if number % 2:
            raise ValueError("an odd number")
        return number / 2

    @app.job(retries=0)
    async def steps(ctx: Context, number: int) -> list[Any]:
        """Say, take and wait for what a job can; half of them fail on the way."""
        await ctx.emit([number])
        half = await ctx.step(halve, number, key="half")
        child = await ctx.spawn("anything", number)
        return [half, await ctx.gather(child), await ctx.wait_for("approved")]

    return app
