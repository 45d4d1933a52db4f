"""The kind of job behind the surface: a diagram, and what becomes of it.

A source may be anything, so it is drawn in a process of its own with a limit on time and memory: a
diagram that explodes in layout, or finds a hole in the engine, ends that process and its own job.
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
# The code of a failure that is the source's own.
BAD_SOURCE = "bad-source"


class Diagram(BaseModel):
    """What is to be drawn, and the shortlink that will lead there if it came in by the surface."""

    source: str = Field(min_length=1, max_length=LONGEST_SOURCE)
    format: Format
    output: Output = Output.SVG
    shortlink: str | None = None
    engine: str | None = None  # None: the one that is set for the format, or else the best there is


class RenderedDiagram(BaseModel):
    """Where the picture is: at the shortlink, and as an artifact of the job."""

    shortlink: str | None
    artifact: str
    content_type: str
    size: int


def render(ctx: Context, diagram: Diagram) -> RenderedDiagram:
    """Draw a diagram and keep the picture with the job."""
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
    """Return the input of a fork. One that a client has written chooses no engine and no shortlink:
    the handler trusts the surface of a job, which a fork shares with its source.
    """
    if not by_client:
        return text
    diagram = Diagram.model_validate_json(text)
    return diagram.model_copy(update={"engine": None, "shortlink": None}).model_dump_json()


def _engine_for(diagram: Diagram) -> str | None:
    """Return what draws a job that has come in by another way than the surface's own calls: the
    operator says what there is, and whoever hands it in cannot have a browser started.
    """
    chosen = None
    if diagram.format is Format.MERMAID:
        chosen = os.environ.get(ENGINE, "").strip() or None
    default = engine_names(diagram.format)[0]
    if diagram.engine not in (None, chosen, default):
        raise Fail("engine-missing", f"{diagram.engine!r} is not an engine that is set here")
    return diagram.engine or chosen
