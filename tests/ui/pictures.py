"""Pictures of pages, for the documentation."""

from __future__ import annotations

import io
import os

from PIL import Image
from playwright.sync_api import Page

from .conftest import ROOT

FOLDER = ROOT / "docs/pictures"


def keep(page: Page, name: str) -> None:
    """Take a picture of what is seen, which is never empty; write it where that is asked for."""
    page.evaluate("document.fonts.ready")
    taken = page.screenshot(animations="disabled")
    assert len(taken) > 10_000
    if os.environ.get("COATCHECK_PICTURES"):
        small = io.BytesIO()
        picture = Image.open(io.BytesIO(taken)).convert("RGB")
        picture.quantize(192, dither=Image.Dither.NONE).save(small, "PNG", optimize=True)
        (FOLDER / f"cockpit-{name}.png").write_bytes(small.getvalue())
