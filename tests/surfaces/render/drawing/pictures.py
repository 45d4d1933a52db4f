"""The pictures of the documentation, drawn from the sources beside them.

    python -m tests.surfaces.render.drawing.pictures

draws them anew after a source, or what draws it, has changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from coatcheck.surfaces.render.drawing import Format, Output, draw

PAGE = Path(__file__).resolve().parents[4] / "docs/reference/diagrams.md"

_SHOWN = re.compile(
    r"^```(mermaid|d2)\n(.*?)^```\n\n!\[[^\]]*\]\(([^)]*)\)$", re.MULTILINE | re.DOTALL
)


def pictures() -> Iterator[tuple[Path, bytes]]:
    """Draw every source of the page that is followed by its picture."""
    for language, source, link in _SHOWN.findall(PAGE.read_text()):
        path = (PAGE.parent / link).resolve()
        yield path, draw(source, Format(language), Output(path.suffix[1:])).content


if __name__ == "__main__":
    for path, content in pictures():
        path.write_bytes(content)
