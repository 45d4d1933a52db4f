"""The page that draws: empty, offline, without an origin, with Mermaid and our fonts."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from coatcheck.surfaces.render.drawing.chromium.pipe import BrowserGone, Pipe
from coatcheck.surfaces.render.drawing.fonts import FAMILY, font_files
from coatcheck.surfaces.render.drawing.picture import LONGEST_SOURCE

VENDOR = Path(__file__).with_name("vendor")
MERMAID = VENDOR / "mermaid.js"
FORMULA_STYLE = VENDOR / "katex.css"

# Code that is evaluated over the pipe is not subject to the page's policy, so the page needs no
# scripts of its own and allows none.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
_EMPTY = f"""<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Diagrams</title><body></body>"""
_ADDRESS = "data:text/html;base64," + base64.b64encode(_EMPTY.encode()).decode()

_FONTS = f"{FAMILY}, Arial, Helvetica, sans-serif"
# Settings that a source cannot change in its front matter or a directive.
_FIXED_SETTINGS = {
    "startOnLoad": False,
    "securityLevel": "strict",
    "suppressErrorRendering": True,
    "maxTextSize": LONGEST_SOURCE,
    "maxEdges": 50_000,
    "deterministicIds": True,
    "deterministicIDSeed": "diagram",
    "dompurifyConfig": {},
    # Formulas as positioned letters, because not every SVG viewer supports MathML.
    "legacyMathML": True,
    "forceLegacyMathML": True,
}
_SETTINGS = {
    **_FIXED_SETTINGS,
    "secure": ["secure", *_FIXED_SETTINGS],
    "theme": "default",
    "look": "classic",
    "handDrawnSeed": 1,
    "fontFamily": _FONTS,
    "themeVariables": {"fontFamily": _FONTS},
}

LOADED = """new Promise((done) =>
  document.readyState === "complete" ? done() : addEventListener("load", () => done()))"""

_FONT_RULE = re.compile(r"@font-face\{[^}]*\}")
_STYLES = {
    "Regular": ("400", "normal"),
    "Bold": ("700", "normal"),
    "Italic": ("400", "italic"),
    "BoldItalic": ("700", "italic"),
}


class FontFile(NamedTuple):
    """One file of a font family."""

    family: str
    weight: str
    slant: str


class MermaidError(NamedTuple):
    """An error that Mermaid reports about a source."""

    kind: str  # the name of the error's class
    reason: str
    token: str  # the text at fault, if known
    line: int | None
    column: int | None  # of the error
    preceding_end: int | None  # the column where the preceding text ends


@dataclass(frozen=True)
class PageResult:
    """The result of drawing a source: a picture, or an error."""

    svg: str
    faces: frozenset[FontFile]  # used by its labels
    error: MermaidError | None


class BrowserPage:
    """The only page of a browser."""

    def __init__(self, pipe: Pipe, deadline: float) -> None:
        self._pipe = pipe
        target = pipe.call("Target.createTarget", deadline, url="about:blank")["targetId"]
        attached = pipe.call("Target.attachToTarget", deadline, targetId=target, flatten=True)
        self._session = str(attached["sessionId"])
        self._call("Inspector.enable", deadline)
        self._call("Network.enable", deadline)
        self._call(
            "Network.emulateNetworkConditions",
            deadline,
            offline=True,
            latency=0,
            downloadThroughput=0,
            uploadThroughput=0,
        )
        self._call("Page.navigate", deadline, url=_ADDRESS)
        for part in _program():
            self._evaluate(part, deadline)

    def draw(self, source: str, deadline: float, *, inline_styles: bool = False) -> PageResult:
        """Draw one diagram. With `inline_styles`, each element has its own style instead of a
        sheet.
        """
        arguments = f"{json.dumps(source)}, {json.dumps(inline_styles)}"
        result = self._evaluate(f"coatcheck.draw({arguments})", deadline)
        try:
            if "error" in result:
                return PageResult("", frozenset(), _error(**result["error"]))
            return PageResult(str(result["svg"]), _faces(result["faces"]), None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BrowserGone("the page returned an unexpected result") from error

    def _evaluate(self, expression: str, deadline: float) -> Any:
        response = self._call(
            "Runtime.evaluate",
            deadline,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in response:
            raise BrowserGone(f"the page failed: {json.dumps(response['exceptionDetails'])}")
        return response["result"].get("value")

    def _call(self, method: str, deadline: float, **parameters: Any) -> dict[str, Any]:
        return self._pipe.call(method, deadline, self._session, **parameters)


def formula_fonts() -> tuple[Path, ...]:
    """Return the font files for formulas."""
    return tuple(sorted(VENDOR.glob("KaTeX_*.ttf")))


def face_of(path: Path) -> FontFile:
    """Return the face of a font file, from its name."""
    family, _, style = path.stem.partition("-")
    return FontFile(family, *_STYLES[style])


def _error(kind: str, reason: str, token: str, **positions: float | None) -> MermaidError:
    numbers = {name: None if at is None else int(at) for name, at in positions.items()}
    return MermaidError(str(kind), str(reason), str(token), **numbers)


def _faces(faces: Iterable[dict[str, str]]) -> frozenset[FontFile]:
    # The first family that a label names is the one in use.
    return frozenset(
        FontFile(each["family"].split(",")[0].strip("\"' "), each["weight"], each["slant"])
        for each in faces
    )


@cache
def _program() -> tuple[str, ...]:
    """Return the expressions that prepare a new page, in order."""
    fonts = [
        {**face_of(path)._asdict(), "data": _base64(path)}
        for path in (*font_files(), *formula_fonts())
    ]
    style = _FONT_RULE.sub("", FORMULA_STYLE.read_text())
    options = json.dumps({"fonts": fonts, "style": style, "settings": _SETTINGS})
    script = resources.files(__package__).joinpath("page.js").read_text()
    return LOADED, MERMAID.read_text() + ";0", script + ";0", f"coatcheck.prepare({options})"


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
