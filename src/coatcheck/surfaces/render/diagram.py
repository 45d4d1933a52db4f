"""The kind of job behind the surface: draw one diagram.

A source may be hostile, so it is drawn in a process of its own with limits on time and memory. A
diagram that explodes in layout or exploits the engine ends that process and only its own job.
"""

from __future__ import annotations

import os

from pydantic import BaseModel, Field

from coatcheck.errors import Fail
from coatcheck.model.job import Job
from coatcheck.surfaces.render.drawing import (
    LONGEST_SOURCE,
    DrawingError,
    EngineMissing,
    Format,
    Output,
    draw,
    engine_names,
)
from coatcheck.surfaces.render.settings import ENGINE
from coatcheck.worker.steps.context import Context

KIND = "render"
SURFACE = "render"
QUEUE = "render"
ARTIFACT = "diagram"
# The error code for an invalid source.
BAD_SOURCE = "bad-source"


class Diagram(BaseModel):
    """A diagram to draw, and its shortlink if it was submitted through the surface."""

    source: str = Field(min_length=1, max_length=LONGEST_SOURCE)
    format: Format
    output: Output = Output.SVG
    shortlink: str | None = None
    engine: str | None = None  # None: the operator's choice for the format, or else the default


class RenderedDiagram(BaseModel):
    """The location of a picture: its shortlink, and the name of the job's artifact."""

    shortlink: str | None
    artifact: str
    content_type: str
    size: int


def render(ctx: Context, diagram: Diagram) -> RenderedDiagram:
    """Draw a diagram and store the picture with the job."""
    engine = diagram.engine if ctx.surface == SURFACE else _engine_for(diagram)
    try:
        picture = draw(diagram.source, diagram.format, diagram.output, engine=engine)
    except DrawingError as error:
        raise Fail(BAD_SOURCE, str(error)) from None
    except EngineMissing as error:
        raise Fail("engine-missing", str(error)) from None
    name = f"{ARTIFACT}.{diagram.output}"
    ctx.artifact(name, picture.content, picture.content_type, at_end=True)
    return RenderedDiagram(
        shortlink=diagram.shortlink,
        artifact=name,
        content_type=picture.content_type,
        size=len(picture.content),
    )


def fork_input(text: str, _source: Job, _fork_id: str, by_client: bool) -> str:
    """Return the input of a fork.

    An input written by a client chooses neither engine nor shortlink: the handler trusts the
    surface of a job, which a fork shares with its source.
    """
    if not by_client:
        return text
    diagram = Diagram.model_validate_json(text)
    return diagram.model_copy(update={"engine": None, "shortlink": None}).model_dump_json()


def _engine_for(diagram: Diagram) -> str | None:
    """Return the engine for a job that was not submitted through the surface's own endpoints.

    Only the operator's choice and the default are allowed, so a caller cannot start a browser.
    """
    chosen = None
    if diagram.format is Format.MERMAID:
        chosen = os.environ.get(ENGINE, "").strip() or None
    default = engine_names(diagram.format)[0]
    if diagram.engine not in (None, chosen, default):
        raise Fail("engine-missing", f"the engine {diagram.engine!r} is not enabled on this server")
    return diagram.engine or chosen
