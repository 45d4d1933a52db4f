"""The engine: a browser that is started when it is needed and let go when it should be."""

from __future__ import annotations

import base64
import os
import re
import shutil
import threading
import time
from pathlib import Path

from coatcheck.sandbox import SandboxBackend, detect_sandbox
from coatcheck.surfaces.render.drawing.chromium.browser import Browser
from coatcheck.surfaces.render.drawing.chromium.page import (
    FORMULA_STYLE,
    MERMAID,
    BrowserPage,
    PageResult,
    face_of,
    formula_fonts,
)
from coatcheck.surfaces.render.drawing.chromium.pipe import BrowserGone, TooLate
from coatcheck.surfaces.render.drawing.chromium.source_location import mistake_in
from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing
from coatcheck.surfaces.render.drawing.fonts import font_files
from coatcheck.surfaces.render.drawing.mermaid import refuse_products, with_margin
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.raster import to_png
from coatcheck.surfaces.render.drawing.sanitize import inert

PROGRAM = "COATCHECK_RENDER_CHROMIUM"
# The one without windows needs half the memory of the others, and half their time to start.
PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
# A script of Debian's that reads configuration, and what it starts.
_SCRIPTS = {"/usr/bin/chromium": "/usr/lib/chromium/chromium"}

LONGEST_DRAWING_S = 20.0
# A busy machine starts one in seconds.
LONGEST_START_S = 60.0
# A browser is let go after so many diagrams, so long, or when it holds so much; each is far above
# what it comes to unless something is wrong, and far below what would hurt.
MOST_DIAGRAMS = 1000
OLDEST_S = 3600.0
LARGEST_BYTES = 1024 * 1024 * 1024

_VERSION = re.compile(r'version:"(11\.\d+\.\d+)"')
_NO_PROGRAM = (
    f"Chromium (Debian: apt-get install chromium-headless-shell), or its path in {PROGRAM}"
)
_NO_PARTS = "Mermaid from npm, which a wheel of Coatcheck has in it; here: make setup"
_NO_WALL = (
    "a sandbox: a browser is only started where it can be kept from files and the network "
    "(Linux 6.7 or newer with the package sandlock, or the program bwrap)"
)


class ChromiumEngine:
    """Draws Mermaid by Mermaid itself."""

    name = "chromium"
    formats = frozenset({Format.MERMAID})

    def __init__(self) -> None:
        self._lock = threading.Lock()  # there is one page
        self._browser: Browser | None = None
        self._page: BrowserPage | None = None
        self._drawn = 0

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        refuse_products(source)
        with self._lock:
            drawn = self._in_browser(source, output)
        if drawn.mistake is not None:
            raise mistake_in(source, drawn.mistake)
        svg, fonts = with_margin(drawn.svg), _fonts_of(drawn)
        if output is Output.PNG:
            return Picture(to_png(inert(svg), fonts), output.content_type)
        return Picture(inert(_with_fonts(svg, fonts)).encode(), output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Say whether it can draw here."""
        missing = _missing()
        note = ""
        if not missing:
            says = detect_sandbox().says
            note = f"{_program()}, its own sandbox off, in ours: {says}"
        return (DetectedEngine(self.name, Format.MERMAID, _version(), missing, note),)

    def close(self) -> None:
        """End the browser, if there is one, and wait until nothing of it is left."""
        with self._lock:
            browser = self._let_go()
        if browser is not None:
            browser.wait()

    def _in_browser(self, source: str, output: Output) -> PageResult:
        page = self._page_to_draw_on()
        was_there = self._drawn > 0
        try:
            deadline = time.monotonic() + LONGEST_DRAWING_S
            drawn = page.draw(source, deadline, without_sheet=output is Output.PNG)
        except TooLate:
            self._let_go()
            raise DrawingError(
                f"the diagram takes longer than {LONGEST_DRAWING_S:g} s to lay out"
            ) from None
        except BrowserGone:
            self._let_go()
            if was_there:
                # It may have died of another's: this one gets a browser that is new.
                return self._in_browser(source, output)
            raise DrawingError("the diagram takes more memory than there is for it") from None
        except BaseException:
            self._let_go()
            raise
        self._drawn += 1
        return drawn

    def _page_to_draw_on(self) -> BrowserPage:
        browser = self._browser
        if browser is not None and (
            browser.process.poll() is not None
            or browser.age_s > OLDEST_S
            or self._drawn >= MOST_DIAGRAMS
            or browser.resident_bytes() > LARGEST_BYTES
        ):
            self._let_go()
        if self._page is None:
            self._page = self._start()
        return self._page

    def _start(self) -> BrowserPage:
        if missing := _missing():
            raise EngineMissing(f"Mermaid in Chromium needs {missing}")
        self._browser = Browser(_program())
        try:
            return BrowserPage(self._browser.pipe, time.monotonic() + LONGEST_START_S)
        except (BrowserGone, TooLate) as error:
            browser = self._let_go()
            said = browser.wait() if browser is not None else ""
            raise EngineMissing(f"Chromium could not be started: {said or error}") from error
        except BaseException:
            self._let_go()
            raise

    def _let_go(self) -> Browser | None:
        browser, self._browser, self._page, self._drawn = self._browser, None, None, 0
        if browser is not None:
            browser.end()
        return browser


def _missing() -> str:
    """Return what has to be there for it to draw, and is not."""
    if not MERMAID.is_file() or not FORMULA_STYLE.is_file():
        return _NO_PARTS
    if not _program():
        named = os.environ.get(PROGRAM, "").strip()
        return f"a program at {named}, which {PROGRAM} names" if named else _NO_PROGRAM
    try:
        font_files()
    except EngineMissing as error:
        return str(error)
    return _NO_WALL if detect_sandbox().backend is SandboxBackend.RLIMITS else ""


def _program() -> str:
    """Return the browser's program; nothing where there is none."""
    named = os.environ.get(PROGRAM, "").strip()
    found = next(filter(None, map(shutil.which, (named,) if named else PROGRAMS)), "")
    return shutil.which(_SCRIPTS.get(found, found)) or found


def _version() -> str | None:
    """Return which Mermaid it is."""
    try:
        found = _VERSION.search(MERMAID.read_text())
    except OSError:
        return None
    return f"with Mermaid {found[1]}" if found else None


def _fonts_of(drawn: PageResult) -> tuple[Path, ...]:
    """Return the files that the formulas of a diagram are set in, and no other: what draws PNGs
    cannot tell those of one family from each other.
    """
    return tuple(path for path in formula_fonts() if face_of(path) in drawn.faces)


def _with_fonts(svg: str, fonts: tuple[Path, ...]) -> str:
    """Return an SVG that has the fonts of its formulas in it: nobody else has them."""
    rules = []
    for path in fonts:
        family, weight, slant = face_of(path)
        data = base64.b64encode(path.read_bytes()).decode()
        rules.append(
            f"@font-face{{font-family:{family};font-weight:{weight};font-style:{slant};"
            f"src:url(data:font/ttf;base64,{data})}}"
        )
    if not rules:
        return svg
    end_of_root = svg.index(">") + 1
    return f"{svg[:end_of_root]}<style>{''.join(rules)}</style>{svg[end_of_root:]}"
