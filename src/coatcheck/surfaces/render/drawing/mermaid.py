"""Mermaid, laid out by the library `merman` in this process: no browser, no JavaScript."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import threading
from typing import Any

from coatcheck.surfaces.render.drawing.errors import (
    DrawingError,
    EngineMissing,
    mistake_at,
    mistake_at_offset,
)
from coatcheck.surfaces.render.drawing.fonts import FAMILY, font_files
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.raster import to_png
from coatcheck.surfaces.render.drawing.sanitize import inert

_TO_INSTALL = "pip install 'coatcheck[render]'"

# Arial is as wide as Roboto, so labels also fit where an SVG is looked at without it.
_FONTS = f"{FAMILY}, Arial, Helvetica, sans-serif"

# The look that Mermaid has had for years. A source's own front matter or directive goes before it.
_OPTIONS = json.dumps(
    {
        "site_config": {
            "theme": "default",
            "look": "classic",
            "fontFamily": _FONTS,
            "themeVariables": {"fontFamily": _FONTS},
        },
        # Labels as SVG text: pictures are shown where there is no HTML.
        "svg": {"pipeline": "resvg-safe", "diagram_id": "diagram"},
        # The library guesses a layout's work before it begins, and far too high: time is the limit.
        "resources": {"profile": "interactive", "limits": {"max_layout_work_units": 2_000_000_000}},
    }
)

# The library looks at the clock between the steps of a layout. Some steps are long, so this keeps
# most diagrams that explode from taking longer, and not all: see the package's promises.
LONGEST_LAYOUT_S = 20.0

# `a & b & c --> d & e & f` is nine edges. Products of long lists would fill the memory while the
# source is read, where there is no limit to how many.
_MANY = 40
_MOST_EDGES = 50_000

# Labels are drawn in small pictures of their own that would cut what is wider in another font.
_CLIPPED = re.compile(r'(<svg\b[^<>]*\sstyle="[^"<>]*)overflow:hidden')

# What draws PNGs takes an angle without its unit in a style sheet, and browsers only with it.
_MILESTONE = (".milestone{transform:rotate(45) ", ".milestone{transform:rotate(45deg) ")

# Some kinds of diagram paint a little beyond their own edge, where a picture is cut.
_MARGIN = 10.0
_ROOT = re.compile(r"<svg\b[^<>]*>")
_VIEW_BOX = re.compile(r'(?<=\sviewBox=")(\S+) (\S+) (\S+) (\S+)(?=")')
_LARGEST = re.compile(r"(?<=max-width:)\s*[\d.]+(?=px)")

_YAML_PLACE = re.compile(r" at char \d+ line (\d+) column (\d+)")
_PREFIX = re.compile(r"Diagram parse error \([^)]*\): ")
_NAMED_TEXT = re.compile(r":\s*(\S.*)\Z", re.DOTALL)


class MermanEngine:
    """Draws Mermaid."""

    name = "merman"
    formats = frozenset({Format.MERMAID})

    def __init__(self) -> None:
        # What measures labels serves one call at a time, so every thread has its own.
        self._own = threading.local()

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        engine = self._engine()
        import merman  # noqa: PLC0415

        refuse_products(source)
        try:
            drawn = engine.execute(
                merman.MermanOperationRequestV4(
                    operation_id="svg",
                    source=source,
                    uri=None,
                    options_json=None,
                    control=merman.MermanOperationControl(int(LONGEST_LAYOUT_S * 1000)),
                )
            ).data.decode()
        except merman.MermanError.Binding as error:
            raise _mistake(engine, source, error) from None
        svg = inert(with_margin(_CLIPPED.sub(r"\1overflow:visible", drawn)))
        if output is Output.PNG:
            return Picture(to_png(svg), output.content_type)
        return Picture(svg.replace(*_MILESTONE).encode(), output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Say whether it can draw here."""
        version = missing = None
        try:
            version = importlib.metadata.version("merman")
            font_files()
            if importlib.util.find_spec("resvg_py") is None:
                missing = f"resvg-py, for PNG: {_TO_INSTALL}"
        except importlib.metadata.PackageNotFoundError:
            missing = _TO_INSTALL
        except EngineMissing as error:
            missing = str(error)
        return (DetectedEngine(self.name, Format.MERMAID, version, missing or ""),)

    def _engine(self) -> Any:
        try:
            return self._own.engine
        except AttributeError:
            pass
        try:
            # An optional part: only who uses it needs it.
            import merman  # noqa: PLC0415

            from coatcheck.surfaces.render.drawing.text_width import FontMeasurer  # noqa: PLC0415
        except ImportError as error:
            raise EngineMissing(f"Mermaid needs a library: {_TO_INSTALL}") from error
        font_files()
        services = merman.MermanEngineServices().with_text_measurer(FontMeasurer())
        self._own.engine = merman.MermanEngine(_OPTIONS, services)
        return self._own.engine


def refuse_products(source: str) -> None:
    """Raise DrawingError where lists make more edges than anybody can look at."""
    lists = [line.count("&") for line in source.split("\n")]
    if sum((count // 2 + 1) ** 2 for count in lists if count > _MANY) > _MOST_EDGES:
        raise DrawingError(
            f"lists joined by & make more than {_MOST_EDGES} edges; draw fewer at once"
        )


def with_margin(svg: str) -> str:
    """Return an SVG with some room on every side."""
    return _ROOT.sub(_larger, svg, count=1)


def _larger(root: re.Match[str]) -> str:

    def wider(box: re.Match[str]) -> str:
        x, y, width, height = (float(part) for part in box.groups())
        larger = (x - _MARGIN, y - _MARGIN, width + 2 * _MARGIN, height + 2 * _MARGIN)
        return " ".join(f"{number:.10g}" for number in larger)

    tag = _VIEW_BOX.sub(wider, root[0])
    return _LARGEST.sub(lambda found: f"{float(found[0]) + 2 * _MARGIN:.10g}", tag)


def _mistake(engine: Any, source: str, error: Any) -> DrawingError:
    """Return what is wrong with a source, in its own lines and columns."""
    if error.cancellation is not None:
        return DrawingError(f"the diagram takes longer than {LONGEST_LAYOUT_S:g} s to lay out")
    if error.resource is not None:
        return DrawingError(f"the diagram is too large: {error.message}")
    if error.capability_id == "math":
        return DrawingError("formulas ($$…$$) are not drawn by this engine")
    if error.code_name not in ("MERMAN_PARSE_ERROR", "MERMAN_NO_DIAGRAM"):
        return DrawingError(f"the diagram cannot be drawn: {error.message}")
    reason = _PREFIX.sub("", error.message)
    span = error.diagnostic.span if error.diagnostic is not None else None
    if span is not None:
        offset = len(source.encode()[: span.start].decode(errors="ignore"))
        return mistake_at_offset(source, offset, reason)
    in_yaml = _YAML_PLACE.search(reason)
    if in_yaml:
        # Counted from the line below the one that opens the front matter.
        opened = source[: source.find("---")].count("\n") + 1
        return mistake_at(
            source, opened + int(in_yaml[1]), int(in_yaml[2]), _YAML_PLACE.sub("", reason)
        )
    named = _NAMED_TEXT.search(reason)
    if named and named[1] in source:
        return mistake_at_offset(source, source.index(named[1]), reason)
    return _as_analysed(engine, source, reason)


def _as_analysed(engine: Any, source: str, reason: str) -> DrawingError:
    """Ask the library's other reading for a place: rougher, but always one."""
    for found in json.loads(engine.analyze_json(source, None))["diagnostics"]:
        span = found.get("span")
        if found["severity"] == "error" and span:
            return mistake_at(source, span["line"], span["column"], reason)
    return mistake_at(source, 1, 1, reason)
