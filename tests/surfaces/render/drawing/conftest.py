"""The engines for Mermaid; each passes the same tests where they apply."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coatcheck.surfaces.render.drawing.chromium import ChromiumEngine
from coatcheck.surfaces.render.drawing.engines import BUILT_IN
from tests.debian import program_of

INSTALLING_S = 500
# Time to install a browser if there is none.
IN_A_BROWSER = [pytest.mark.timeout(2 * INSTALLING_S)]


@pytest.fixture(scope="session")
def chromium() -> Iterator[ChromiumEngine]:
    """The engine that draws in a browser, if one can be installed."""
    if program_of("chromium", "chromium", INSTALLING_S) is None:
        pytest.skip("there is no Chromium here, and Debian's cannot be installed")
    [found] = (engine for engine in BUILT_IN if isinstance(engine, ChromiumEngine))
    yield found
    found.close()


@pytest.fixture(params=["merman", pytest.param("chromium", marks=IN_A_BROWSER)])
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine that draws Mermaid."""
    name: str = request.param
    if name == "chromium":
        request.getfixturevalue("chromium")
    return name
