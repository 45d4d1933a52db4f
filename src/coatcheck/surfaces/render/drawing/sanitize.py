"""Writing an SVG anew, so that whoever looks at it only looks at it.

What an engine has drawn is read as XML and written again from a list of what is harmless: elements
that paint, attributes that say how. Everything else is left out, with all that it holds. So nothing
has to be known about attacks; what is not on the list is not in the picture.

- No scripts, no events, no animations (which can set attributes later), no HTML.
- Nothing is fetched: `href` leads to a part of this document or to an image that is written out in
  it, and style sheets are gone through (`css.py`). Links to click on stay if they are to the web or
  to a mail address; they are only followed by people, and tell the other side nothing of where.
- Documents with a document type are refused: that is where entities are declared. Comments and
  processing instructions, style sheets among them, are left out.

Text stays what it is, character by character.
"""

from __future__ import annotations

import re
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from coatcheck.surfaces.render.drawing.css import INLINE_IMAGE, inert_css
from coatcheck.surfaces.render.drawing.errors import DrawingError

_SVG = "http://www.w3.org/2000/svg"
_XLINK_HREF = "http://www.w3.org/1999/xlink href"
_XML_SPACE = "http://www.w3.org/XML/1998/namespace space"
_DEEPEST = 256

_ELEMENT_NAMES = """
    a circle clipPath defs desc ellipse feBlend feColorMatrix feComposite feDropShadow feFlood
    feGaussianBlur feMerge feMergeNode feOffset filter g image line linearGradient marker mask path
    pattern polygon polyline radialGradient rect stop style svg symbol text textPath title tspan
    use
"""
_ELEMENTS = frozenset(_ELEMENT_NAMES.split())
# HTML begins inside these when an SVG is pasted into a page: they hold text, and only text.
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
_HARMLESS_PREFIX = re.compile(r"(?:data|aria)-[\w.-]+")
_LOCAL_REFERENCE = re.compile(r"#[^\s]+")
_LINK = re.compile(r"(?:https?://|mailto:|#)[^\s\x00-\x20\x7f]*", re.IGNORECASE)
_IMAGE = re.compile(INLINE_IMAGE)


def inert(svg: str) -> str:
    """Return the same picture with nothing in it that acts; raises DrawingError for no SVG."""
    writer = _Writer()
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = writer.refuse_document_type
    parser.StartElementHandler = writer.start
    parser.EndElementHandler = writer.end
    parser.CharacterDataHandler = writer.text
    try:
        parser.Parse(svg, True)
    except expat.ExpatError as error:
        raise DrawingError(f"the engine has not drawn an SVG: {error}") from error
    if not writer.parts:
        raise DrawingError("the engine has not drawn an SVG")
    return "".join(writer.parts)


class _Writer:
    """Writes what is harmless of what it is told."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._open: list[str] = []
        self._left_out = 0  # how deep we are in something that is left out
        self._style: list[str] = []

    def refuse_document_type(self, *_: object) -> None:
        raise DrawingError("the engine has drawn an SVG with a document type, which is refused")

    def start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        inside = self._open[-1] if self._open else ""
        if (
            self._left_out
            or namespace != _SVG
            or local not in _ELEMENTS
            or inside in _TEXT_ONLY
            or (not inside and (local != "svg" or self.parts))
        ):
            self._left_out += 1
            return
        if len(self._open) >= _DEEPEST:
            raise DrawingError(f"the diagram is nested more than {_DEEPEST} deep")
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
        if self._left_out:
            self._left_out -= 1
            return
        local = self._open.pop()
        if local == "style":
            # The whole sheet at once: it may have come in pieces.
            self.parts.append(escape(inert_css("".join(self._style))))
            self._style.clear()
        self.parts.append(f"</{local}>")

    def text(self, data: str) -> None:
        if self._left_out or not self._open:
            return
        if self._open[-1] == "style":
            self._style.append(data)
        else:
            self.parts.append(escape(data))


def _quoted(value: str) -> str:
    return quoteattr(value, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def _attribute(element: str, name: str, value: str) -> tuple[str, str] | None:
    """Return an attribute as it is to be written, or None for what is left out."""
    if name in ("href", _XLINK_HREF):
        allowed = {"a": _LINK, "image": _IMAGE}.get(element, _LOCAL_REFERENCE)
        written = "href" if name == "href" else "xlink:href"
        return (written, value) if allowed.fullmatch(value.strip()) else None
    if name == _XML_SPACE:
        return "xml:space", value
    if name not in _ATTRIBUTES and not _HARMLESS_PREFIX.fullmatch(name):
        return None
    if name == "style" or "(" in value or "\\" in value:
        return name, _inert_value(name, value)
    return name, value


def _inert_value(name: str, value: str) -> str:
    # Names that only scripts and selectors read may say what they like.
    if name.startswith(("data-", "aria-")) or name in ("id", "class"):
        return value
    return inert_css(value)
