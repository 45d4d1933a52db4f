"""Draw Mermaid with the library `merman` in this process: no browser, no JavaScript."""

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
    error_at,
    error_at_offset,
)
from coatcheck.surfaces.render.drawing.fonts import FAMILY, font_files
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.raster import to_png
from coatcheck.surfaces.render.drawing.sanitize import sanitize_svg

_INSTALL_COMMAND = "pip install 'coatcheck[render]'"

# Arial is as wide as Roboto, so labels fit even if a viewer lacks Roboto.
_FONTS = f"{FAMILY}, Arial, Helvetica, sans-serif"

# Mermaid's classic look. A source's own front matter or directive takes precedence.
_OPTIONS = json.dumps(
    {
        "site_config": {
            "theme": "default",
            "look": "classic",
            "fontFamily": _FONTS,
            "themeVariables": {"fontFamily": _FONTS},
        },
        # Labels as SVG text: pictures are shown where HTML is not.
        "svg": {"pipeline": "resvg-safe", "diagram_id": "diagram"},
        # The library's estimate of a layout's work is far too high: time is the limit.
        "resources": {"profile": "interactive", "limits": {"max_layout_work_units": 2_000_000_000}},
    }
)

# The library checks the deadline between the steps of a layout. Some steps are long, so this stops
# most explosive diagrams, but not all: see the package's promises.
LAYOUT_TIMEOUT_S = 20.0

# `a & b & c --> d & e & f` is nine edges. Products of long lists would exhaust the memory while the
# source is parsed, and the parser has no limit.
_LONG_LIST = 40
_MAX_EDGES = 50_000

# Labels are drawn in nested pictures, which would clip text that is wider in another font.
_CLIPPED = re.compile(r'(<svg\b[^<>]*\sstyle="[^"<>]*)overflow:hidden')

# resvg accepts an angle in a style sheet only without a unit, browsers only with one.
_MILESTONE = (".milestone{transform:rotate(45) ", ".milestone{transform:rotate(45deg) ")

# Some kinds of diagram paint slightly beyond their edge, where a picture is clipped.
_MARGIN = 10.0
_ROOT = re.compile(r"<svg\b[^<>]*>")
_VIEW_BOX = re.compile(r'(?<=\sviewBox=")(\S+) (\S+) (\S+) (\S+)(?=")')
_MAX_WIDTH = re.compile(r"(?<=max-width:)\s*[\d.]+(?=px)")

_YAML_POSITION = re.compile(r" at char \d+ line (\d+) column (\d+)")
_PREFIX = re.compile(r"Diagram parse error \([^)]*\): ")
_NAMED_TEXT = re.compile(r":\s*(\S.*)\Z", re.DOTALL)


class MermanEngine:
    """Draws Mermaid."""

    name = "merman"
    formats = frozenset({Format.MERMAID})

    def __init__(self) -> None:
        # A text measurer serves one call at a time, so every thread has its own engine.
        self._local = threading.local()

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        engine = self._engine()
        import merman  # noqa: PLC0415

        check_edge_products(source)
        try:
            drawn = engine.execute(
                merman.MermanOperationRequestV4(
                    operation_id="svg",
                    source=source,
                    uri=None,
                    options_json=None,
                    control=merman.MermanOperationControl(int(LAYOUT_TIMEOUT_S * 1000)),
                )
            ).data.decode()
        except merman.MermanError.Binding as error:
            raise _to_error(engine, source, error) from None
        svg = sanitize_svg(with_margin(_CLIPPED.sub(r"\1overflow:visible", drawn)))
        if output is Output.PNG:
            return Picture(to_png(svg), output.content_type)
        return Picture(svg.replace(*_MILESTONE).encode(), output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Report whether Mermaid can be drawn on this machine."""
        version = missing = None
        try:
            version = importlib.metadata.version("merman")
            font_files()
            if importlib.util.find_spec("resvg_py") is None:
                missing = f"resvg-py, for PNG: {_INSTALL_COMMAND}"
        except importlib.metadata.PackageNotFoundError:
            missing = _INSTALL_COMMAND
        except EngineMissing as error:
            missing = str(error)
        return (DetectedEngine(self.name, Format.MERMAID, version, missing or ""),)

    def _engine(self) -> Any:
        try:
            return self._local.engine
        except AttributeError:
            pass
        try:
            # Optional: only Mermaid diagrams need it.
            import merman  # noqa: PLC0415

            from coatcheck.surfaces.render.drawing.text_width import FontMeasurer  # noqa: PLC0415
        except ImportError as error:
            raise EngineMissing(f"Mermaid needs a library: {_INSTALL_COMMAND}") from error
        font_files()
        services = merman.MermanEngineServices().with_text_measurer(FontMeasurer())
        self._local.engine = merman.MermanEngine(_OPTIONS, services)
        return self._local.engine


def check_edge_products(source: str) -> None:
    """Raise DrawingError if lists joined by & make too many edges."""
    lists = [line.count("&") for line in source.split("\n")]
    if sum((count // 2 + 1) ** 2 for count in lists if count > _LONG_LIST) > _MAX_EDGES:
        raise DrawingError(
            f"lists joined by & make more than {_MAX_EDGES} edges; use shorter lists"
        )


def with_margin(svg: str) -> str:
    """Return an SVG with a margin on every side."""
    return _ROOT.sub(_enlarge, svg, count=1)


def _enlarge(root: re.Match[str]) -> str:

    def wider(box: re.Match[str]) -> str:
        x, y, width, height = (float(part) for part in box.groups())
        larger = (x - _MARGIN, y - _MARGIN, width + 2 * _MARGIN, height + 2 * _MARGIN)
        return " ".join(f"{number:.10g}" for number in larger)

    tag = _VIEW_BOX.sub(wider, root[0])
    return _MAX_WIDTH.sub(lambda found: f"{float(found[0]) + 2 * _MARGIN:.10g}", tag)


def _to_error(engine: Any, source: str, error: Any) -> DrawingError:
    """Return the error in a source, with its line and column."""
    if error.cancellation is not None:
        return DrawingError(f"the diagram takes longer than {LAYOUT_TIMEOUT_S:g} s to lay out")
    if error.resource is not None:
        return DrawingError(f"the diagram is too large: {error.message}")
    if error.capability_id == "math":
        return DrawingError("this engine does not draw formulas ($$…$$)")
    if error.code_name not in ("MERMAN_PARSE_ERROR", "MERMAN_NO_DIAGRAM"):
        return DrawingError(f"the diagram cannot be drawn: {error.message}")
    reason = _PREFIX.sub("", error.message)
    span = error.diagnostic.span if error.diagnostic is not None else None
    if span is not None:
        offset = len(source.encode()[: span.start].decode(errors="ignore"))
        return error_at_offset(source, offset, reason)
    yaml_position = _YAML_POSITION.search(reason)
    if yaml_position:
        # Counted from the line below the one that opens the front matter.
        opened = source[: source.find("---")].count("\n") + 1
        return error_at(
            source,
            opened + int(yaml_position[1]),
            int(yaml_position[2]),
            _YAML_POSITION.sub("", reason),
        )
    named = _NAMED_TEXT.search(reason)
    if named and named[1] in source:
        return error_at_offset(source, source.index(named[1]), reason)
    return _analyze(engine, source, reason)


def _analyze(engine: Any, source: str, reason: str) -> DrawingError:
    """Locate an error with the library's analyzer: less precise, but it always has a position."""
    for found in json.loads(engine.analyze_json(source, None))["diagnostics"]:
        span = found.get("span")
        if found["severity"] == "error" and span:
            return error_at(source, span["line"], span["column"], reason)
    return error_at(source, 1, 1, reason)
