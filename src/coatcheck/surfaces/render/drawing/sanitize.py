"""Rewrite an SVG from a list of allowed elements, so that it can only be displayed.

The output of an engine is parsed as XML and written again from an allow list: elements that paint,
and attributes that control how. Anything else is dropped, with its content. This requires no
knowledge of attacks: what is not on the list is not in the picture.

- No scripts, no events, no animations (which can set attributes later), no HTML.
- Nothing is fetched: `href` refers to this document or to an inline image, and style sheets are
  sanitized (`css.py`). Links are kept if they lead to the web or to a mail address: a viewer
  follows them only on a click, and sends no referrer.
- Documents with a document type are rejected, because entities are declared there. Comments and
  processing instructions, including style sheets, are dropped.

Text is unchanged, character by character.
"""

from __future__ import annotations

import re
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from coatcheck.surfaces.render.drawing.css import INLINE_IMAGE, sanitize_css
from coatcheck.surfaces.render.drawing.errors import DrawingError

_SVG = "http://www.w3.org/2000/svg"
_XLINK_HREF = "http://www.w3.org/1999/xlink href"
_XML_SPACE = "http://www.w3.org/XML/1998/namespace space"
_MAX_DEPTH = 256

_ELEMENT_NAMES = """
    a circle clipPath defs desc ellipse feBlend feColorMatrix feComposite feDropShadow feFlood
    feGaussianBlur feMerge feMergeNode feOffset filter g image line linearGradient marker mask path
    pattern polygon polyline radialGradient rect stop style svg symbol text textPath title tspan
    use
"""
_ELEMENTS = frozenset(_ELEMENT_NAMES.split())
# HTML begins inside these if an SVG is pasted into a page, so they may contain only text.
_TEXT_ONLY = frozenset({"title", "desc", "style"})

_ATTRIBUTE_NAMES = """
    alignment-baseline class clip-path clip-rule clipPathUnits color color-interpolation
    color-interpolation-filters cx cy d direction display dominant-baseline dx dy fill fill-opacity
    fill-rule filter filterUnits flood-color flood-opacity font-family font-size font-style
    font-variant font-weight fx fy gradientTransform gradientUnits height id image-rendering in in2
    k1 k2 k3 k4 lengthAdjust letter-spacing marker-end marker-mid marker-start markerHeight
    markerUnits markerWidth mask maskContentUnits maskUnits mask-type mode offset opacity operator
    orient overflow paint-order pathLength patternContentUnits patternTransform patternUnits points
    preserveAspectRatio primitiveUnits r refX refY result role rotate rx ry shape-rendering
    spreadMethod startOffset stdDeviation stop-color stop-opacity stroke stroke-dasharray
    stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit stroke-opacity stroke-width
    style tabindex text-anchor text-decoration text-rendering textLength transform transform-origin
    type unicode-bidi values vector-effect viewBox visibility width word-spacing writing-mode x x1
    x2 y y1 y2
"""
_ATTRIBUTES = frozenset(_ATTRIBUTE_NAMES.split())
_SAFE_PREFIX = re.compile(r"(?:data|aria)-[\w.-]+")
_LOCAL_REFERENCE = re.compile(r"#[^\s]+")
_LINK = re.compile(r"(?:https?://|mailto:|#)[^\s\x00-\x20\x7f]*", re.IGNORECASE)
_IMAGE = re.compile(INLINE_IMAGE)


def sanitize_svg(svg: str) -> str:
    """Return the same picture without anything active; raise DrawingError if it is not an SVG."""
    writer = _Writer()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = writer.reject_document_type
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    try:
        parser.Parse(svg, True)
    except expat.ExpatError as error:
        raise DrawingError(f"the engine did not produce an SVG: {error}") from error
    if not writer.parts:
        raise DrawingError("the engine did not produce an SVG")
    return "".join(writer.parts)


class _Writer:
    """Writes the allowed part of a document."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._open: list[str] = []
        self._dropped = 0  # nesting depth within a dropped element
        self._style: list[str] = []

    def reject_document_type(self, *_: object) -> None:
        raise DrawingError("the engine produced an SVG with a document type, which is not allowed")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        inside = self._open[-1] if self._open else ""
        if (
            self._dropped
            or namespace != _SVG
            or local not in _ELEMENTS
            or inside in _TEXT_ONLY
            or (not inside and (local != "svg" or self.parts))
        ):
            self._dropped += 1
            return
        if len(self._open) >= _MAX_DEPTH:
            raise DrawingError(f"the diagram is nested more than {_MAX_DEPTH} levels deep")
        self.parts.append(f"<{local}")
        if not inside:
            self.parts.append(f' xmlns="{_SVG}" xmlns:xlink="http://www.w3.org/1999/xlink"')
        for key, value in attributes.items():
            kept = _attribute(local, key, value)
            if kept is not None:
                self.parts.append(f" {kept[0]}={_quoted(kept[1])}")
        if local == "a":
            self.parts.append(' rel="noopener noreferrer"')
        self.parts.append(">")
        self._open.append(local)

    def end(self, _name: str) -> None:
        if self._dropped:
            self._dropped -= 1
            return
        local = self._open.pop()
        if local == "style":
            # The whole sheet at once, because it may arrive in pieces.
            self.parts.append(escape(sanitize_css("".join(self._style))))
            self._style.clear()
        self.parts.append(f"</{local}>")

    def text(self, data: str) -> None:
        if self._dropped or not self._open:
            return
        if self._open[-1] == "style":
            self._style.append(data)
        else:
            self.parts.append(escape(data))


def _quoted(value: str) -> str:
    return quoteattr(value, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _attribute(element: str, name: str, value: str) -> tuple[str, str] | None:
    """Return an attribute as it is to be written, or None to drop it."""
    if name in ("href", _XLINK_HREF):
        allowed = {"a": _LINK, "image": _IMAGE}.get(element, _LOCAL_REFERENCE)
        written = "href" if name == "href" else "xlink:href"
        return (written, value) if allowed.fullmatch(value.strip()) else None
    if name == _XML_SPACE:
        return "xml:space", value
    if name not in _ATTRIBUTES and not _SAFE_PREFIX.fullmatch(name):
        return None
    if name == "style" or "(" in value or "\\" in value:
        return name, _sanitize_value(name, value)
    return name, value


def _sanitize_value(name: str, value: str) -> str:
    # Only scripts and selectors read these.
    if name.startswith(("data-", "aria-")) or name in ("id", "class"):
        return value
    return sanitize_css(value)
