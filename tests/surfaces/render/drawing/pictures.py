"""The pictures of the documentation, drawn from the sources next to them.

    python -m tests.surfaces.render.drawing.pictures

draws them again after a change of a source or an engine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from coatcheck.surfaces.render.drawing import Format, Output, draw

DOCS = Path(__file__).resolve().parents[4] / "docs"

_SHOWN = re.compile(
    r"^```(mermaid|d2)\n(.*?)^```\n\n!\[[^\]]*\]\(([^)]*)\)$", re.MULTILINE | re.DOTALL
)


def pictures() -> Iterator[tuple[Path, bytes]]:
    """Draw every source of a page that is followed by its picture."""
    for page in sorted(DOCS.rglob("*.md")):
        for language, source, link in _SHOWN.findall(page.read_text()):
            path = (page.parent / link).resolve()
            yield path, draw(source, Format(language), Output(path.suffix[1:])).content


if __name__ == "__main__":
    for path, content in pictures():
        path.write_bytes(content)
