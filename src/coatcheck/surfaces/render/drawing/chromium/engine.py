"""The Chromium engine: starts a browser on demand and replaces it when necessary."""

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
from coatcheck.surfaces.render.drawing.chromium.pipe import BrowserGone, DeadlineExceeded
from coatcheck.surfaces.render.drawing.chromium.source_location import locate_error
from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing
from coatcheck.surfaces.render.drawing.fonts import font_files
from coatcheck.surfaces.render.drawing.mermaid import check_edge_products, with_margin
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.raster import to_png
from coatcheck.surfaces.render.drawing.sanitize import sanitize_svg

PROGRAM = "COATCHECK_RENDER_CHROMIUM"
# The headless shell needs half the memory and half the start time of the others.
PROGRAMS = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)
# Debian's wrapper script reads configuration; start its target instead.
_SCRIPTS = {"/usr/bin/chromium": "/usr/lib/chromium/chromium"}

DRAW_TIMEOUT_S = 20.0
# A busy machine takes seconds to start one.
START_TIMEOUT_S = 60.0
# A browser is replaced after this many diagrams, this time, or above this memory. Each limit is far
# above normal use and far below anything harmful.
MAX_DIAGRAMS = 1000
MAX_AGE_S = 3600.0
MAX_BYTES = 1024 * 1024 * 1024

_VERSION = re.compile(r'version:"(11\.\d+\.\d+)"')
_NO_PROGRAM = (
    f"Chromium (Debian: apt-get install chromium-headless-shell), or its path in {PROGRAM}"
)
_NO_PARTS = "Mermaid from npm, which Coatcheck's wheel includes; in a checkout, run make setup"
_NO_SANDBOX = (
    "a sandbox: a browser only starts if the sandbox blocks files and the network "
    "(Linux 6.7 or newer with the package sandlock, or the program bwrap)"
)


class ChromiumEngine:
    """Draws Mermaid with Mermaid itself."""

    name = "chromium"
    formats = frozenset({Format.MERMAID})

    def __init__(self) -> None:
        self._lock = threading.Lock()  # there is one page
        self._browser: Browser | None = None
        self._page: BrowserPage | None = None
        self._drawn = 0

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        check_edge_products(source)
        with self._lock:
            result = self._draw_in_browser(source, output)
        if result.error is not None:
            raise locate_error(source, result.error)
        svg, fonts = with_margin(result.svg), _fonts_of(result)
        if output is Output.PNG:
            return Picture(to_png(sanitize_svg(svg), fonts), output.content_type)
        return Picture(sanitize_svg(_embed_fonts(svg, fonts)).encode(), output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Report whether Chromium can draw on this machine."""
        missing = _missing()
        note = ""
        if not missing:
            says = detect_sandbox().says
            note = f"{_program()}, its own sandbox off, in ours: {says}"
        return (DetectedEngine(self.name, Format.MERMAID, _version(), missing, note),)

    def close(self) -> None:
        """Stop the browser, if there is one, and wait until it has ended."""
        with self._lock:
            browser = self._stop_browser()
        if browser is not None:
            browser.wait()

    def _draw_in_browser(self, source: str, output: Output) -> PageResult:
        page = self._ready_page()
        was_used = self._drawn > 0
        try:
            deadline = time.monotonic() + DRAW_TIMEOUT_S
            result = page.draw(source, deadline, inline_styles=output is Output.PNG)
        except DeadlineExceeded:
            self._stop_browser()
            raise DrawingError(
                f"the diagram takes longer than {DRAW_TIMEOUT_S:g} s to lay out"
            ) from None
        except BrowserGone:
            self._stop_browser()
            if was_used:
                # An earlier diagram may have crashed it: retry once with a new browser.
                return self._draw_in_browser(source, output)
            raise DrawingError("the diagram exceeds the memory limit") from None
        except BaseException:
            self._stop_browser()
            raise
        self._drawn += 1
        return result

    def _ready_page(self) -> BrowserPage:
        browser = self._browser
        if browser is not None and (
            browser.process.poll() is not None
            or browser.age_s > MAX_AGE_S
            or self._drawn >= MAX_DIAGRAMS
            or browser.resident_bytes() > MAX_BYTES
        ):
            self._stop_browser()
        if self._page is None:
            self._page = self._start()
        return self._page

    def _start(self) -> BrowserPage:
        if missing := _missing():
            raise EngineMissing(f"Mermaid in Chromium needs {missing}")
        self._browser = Browser(_program())
        try:
            return BrowserPage(self._browser.pipe, time.monotonic() + START_TIMEOUT_S)
        except (BrowserGone, DeadlineExceeded) as error:
            browser = self._stop_browser()
            stderr = browser.wait() if browser is not None else ""
            raise EngineMissing(f"Chromium could not be started: {stderr or error}") from error
        except BaseException:
            self._stop_browser()
            raise

    def _stop_browser(self) -> Browser | None:
        browser, self._browser, self._page, self._drawn = self._browser, None, None, 0
        if browser is not None:
            browser.end()
        return browser


def _missing() -> str:
    """Return the missing requirement, or an empty text."""
    if not MERMAID.is_file() or not FORMULA_STYLE.is_file():
        return _NO_PARTS
    if not _program():
        named = os.environ.get(PROGRAM, "").strip()
        return f"a program at {named}, which {PROGRAM} names" if named else _NO_PROGRAM
    try:
        font_files()
    except EngineMissing as error:
        return str(error)
    return _NO_SANDBOX if detect_sandbox().backend is SandboxBackend.RLIMITS else ""


def _program() -> str:
    """Return the path of the browser, or an empty text."""
    named = os.environ.get(PROGRAM, "").strip()
    found = next(filter(None, map(shutil.which, (named,) if named else PROGRAMS)), "")
    return shutil.which(_SCRIPTS.get(found, found)) or found


def _version() -> str | None:
    """Return the version of Mermaid."""
    try:
        found = _VERSION.search(MERMAID.read_text())
    except OSError:
        return None
    return f"with Mermaid {found[1]}" if found else None


def _fonts_of(result: PageResult) -> tuple[Path, ...]:
    """Return the font files that the formulas of a diagram use, and no others.

    resvg cannot tell the files of one family apart.
    """
    return tuple(path for path in formula_fonts() if face_of(path) in result.faces)


def _embed_fonts(svg: str, fonts: tuple[Path, ...]) -> str:
    """Embed the fonts of the formulas in an SVG, because no viewer has them."""
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
