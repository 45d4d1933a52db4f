"""Running the lines that pages print, as whoever pastes them into a shell does."""

from __future__ import annotations

import os
import subprocess

from playwright.sync_api import Page

from tests.debian import program_of

from .conftest import ROOT


def run_line(page: Page, key: str = "") -> str:
    """Run the line that a page shows, and return what came back."""
    assert program_of("curl", "curl") is not None
    done = subprocess.run(
        ["/bin/sh", "-c", page.locator(".command pre").inner_text()],
        cwd=ROOT,
        env={**os.environ, "COATCHECK_API_KEY": key},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout
