"""The engines there are, and the one way in to all of them."""

from __future__ import annotations

from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine
from coatcheck.surfaces.render.drawing.d2 import D2Engine
from coatcheck.surfaces.render.drawing.errors import (
    DrawingError,
    EngineMissing,
    mistake_at_offset,
)
from coatcheck.surfaces.render.drawing.mermaid import MermanEngine
from coatcheck.surfaces.render.drawing.picture import (
    LONGEST_SOURCE,
    DetectedEngine,
    DrawingEngine,
    Format,
    Output,
    Picture,
)

# The first that draws a format is the one that draws it unless another is asked for by name.
BUILT_IN: tuple[DrawingEngine, ...] = (MermanEngine(), ChromiumEngine(), D2Engine())


def draw(
    source: str,
    format: Format,  # noqa: A002
    output: Output,
    *,
    engine: str | None = None,
) -> Picture:
    """Draw a diagram; raises DrawingError, or EngineMissing where it cannot be drawn here."""
    _look_at(source)
    return _engine_for(format, engine).draw(source, format, output)


def engine_names(format: Format) -> tuple[str, ...]:  # noqa: A002
    """Return the names of those that draw a format, the default first."""
    return tuple(engine.name for engine in BUILT_IN if format in engine.formats)


def engines_in_force() -> tuple[DetectedEngine, ...]:
    """Say for every format and engine whether it can draw here, and what it misses."""
    return tuple(found for engine in BUILT_IN for found in engine.in_force())


def _engine_for(format: Format, name: str | None) -> DrawingEngine:  # noqa: A002
    fitting = [engine for engine in BUILT_IN if format in engine.formats]
    for engine in fitting:
        if name in (None, engine.name):
            return engine
    known = ", ".join(engine.name for engine in fitting)
    raise EngineMissing(f"no engine {name!r} draws {format}; there is {known}")


def _look_at(source: str) -> None:
    """Refuse what no engine should see."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise mistake_at_offset(source, error.start, "this is no Unicode character") from None
    if size > LONGEST_SOURCE:
        raise DrawingError(
            f"the source has {size} bytes; at most {LONGEST_SOURCE} are taken", None, None
        )
    if "\0" in source:
        raise mistake_at_offset(source, source.index("\0"), "a NUL is no text")
    if not source.strip():
        raise DrawingError("there is nothing to draw: the source is empty")
