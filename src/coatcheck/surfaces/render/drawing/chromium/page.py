"""The page that draws: empty, without an origin, with Mermaid and our fonts in it, and offline."""

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

# What we say through the pipe is not the page's, so that no policy holds for it: it needs no script
# of its own, and gets none.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
_EMPTY = f"""<!doctype html><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>Diagrams</title><body></body>"""
_ADDRESS = "data:text/html;base64," + base64.b64encode(_EMPTY.encode()).decode()

_FONTS = f"{FAMILY}, Arial, Helvetica, sans-serif"
# What a source cannot change by its front matter or a directive.
_OURS = {
    "startOnLoad": False,
    "securityLevel": "strict",
    "suppressErrorRendering": True,
    "maxTextSize": LONGEST_SOURCE,
    "maxEdges": 50_000,
    "deterministicIds": True,
    "deterministicIDSeed": "diagram",
    "dompurifyConfig": {},
    # Formulas as letters that are placed, not as MathML: not every viewer of an SVG has that.
    "legacyMathML": True,
    "forceLegacyMathML": True,
}
_SETTINGS = {
    **_OURS,
    "secure": ["secure", *_OURS],
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
    """One of the files of a font."""

    family: str
    weight: str
    slant: str


class MermaidError(NamedTuple):
    """What Mermaid says is wrong with a source."""

    kind: str  # the name of the error's class
    reason: str
    token: str  # what it is about, where that is told
    line: int | None
    column: int | None  # of what is wrong
    behind: int | None  # where what comes before it ends, in that line


@dataclass(frozen=True)
class PageResult:
    """What has become of a source: a picture, or else what is wrong with it."""

    svg: str
    faces: frozenset[FontFile]  # that its labels are set in
    mistake: MermaidError | None


class BrowserPage:
    """The one page of a browser."""

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

    def draw(self, source: str, deadline: float, *, without_sheet: bool = False) -> PageResult:
        """Draw one diagram; without a style sheet, each element says how it looks."""
        given = f"{json.dumps(source)}, {json.dumps(without_sheet)}"
        said = self._evaluate(f"coatcheck.draw({given})", deadline)
        try:
            if "mistake" in said:
                return PageResult("", frozenset(), _mistake(**said["mistake"]))
            return PageResult(str(said["svg"]), _faces(said["faces"]), None)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise BrowserGone("the page has not answered as it should") from error

    def _evaluate(self, expression: str, deadline: float) -> Any:
        answer = self._call(
            "Runtime.evaluate",
            deadline,
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
        )
        if "exceptionDetails" in answer:
            raise BrowserGone(f"the page has failed: {json.dumps(answer['exceptionDetails'])}")
        return answer["result"].get("value")

    def _call(self, method: str, deadline: float, **parameters: Any) -> dict[str, Any]:
        return self._pipe.call(method, deadline, self._session, **parameters)


def formula_fonts() -> tuple[Path, ...]:
    """Return the files of the fonts that formulas are set in."""
    return tuple(sorted(VENDOR.glob("KaTeX_*.ttf")))


def face_of(path: Path) -> FontFile:
    """Return which face a file has, by its name."""
    family, _, style = path.stem.partition("-")
    return FontFile(family, *_STYLES[style])


def _mistake(kind: str, reason: str, token: str, **places: float | None) -> MermaidError:
    numbers = {name: None if at is None else int(at) for name, at in places.items()}
    return MermaidError(str(kind), str(reason), str(token), **numbers)


def _faces(said: Iterable[dict[str, str]]) -> frozenset[FontFile]:
    # Of the families that a label names, the first is the one that is there.
    return frozenset(
        FontFile(each["family"].split(",")[0].strip("\"' "), each["weight"], each["slant"])
        for each in said
    )


@cache
def _program() -> tuple[str, ...]:
    """Return what is said to a new page, in order."""
    fonts = [
        {**face_of(path)._asdict(), "data": _base64(path)}
        for path in (*font_files(), *formula_fonts())
    ]
    style = _FONT_RULE.sub("", FORMULA_STYLE.read_text())
    prepared = json.dumps({"fonts": fonts, "style": style, "settings": _SETTINGS})
    ours = resources.files(__package__).joinpath("page.js").read_text()
    return LOADED, MERMAID.read_text() + ";0", ours + ";0", f"coatcheck.prepare({prepared})"


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
