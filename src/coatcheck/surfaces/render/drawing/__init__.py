"""Drawing diagrams: source text in, a picture out, and nothing else happens.

    picture = draw("flowchart LR\n  A --> B", Format.MERMAID, Output.PNG)

Nobody who sends a source is trusted, so this package promises:

1. A source is text of at most `LONGEST_SOURCE` bytes. Whatever is wrong with it is a
   `DrawingError` that says where (`surfaces/render/drawing/errors.py`), and never anything else.
2. Drawing reads no file and calls nobody. Mermaid is laid out in this process by a library that
   has no way out (`mermaid.py`) or, where that is asked for, in a browser that has none either
   (`chromium/`). D2 is a program that could read files and fetch addresses, so what would make it
   do so is refused (`d2_source.py`), and it runs in a sandbox all the same (`d2.py`).
3. Every SVG is written anew from a list of what is harmless before anybody sees it
   (`surfaces/render/drawing/sanitize.py`): no scripts, no events, nothing that is fetched. A PNG is
   made of that SVG, not of the engine's.
4. Labels are measured with the very font that they are drawn with (`fonts.py`), which comes with
   the package, so a PNG shows every label whole, on every machine the same.
5. The same source gives the same bytes.

It does not promise to be done soon: some small sources take long to lay out. D2's process is
limited here, and so is a browser; the library's layout is bounded in work, and whoever calls bounds
its time and memory by drawing in a process that can be ended.
"""

from coatcheck.surfaces.render.drawing.engines import draw, engine_names, engines_in_force
from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing
from coatcheck.surfaces.render.drawing.picture import (
    LONGEST_SOURCE,
    DetectedEngine,
    DrawingEngine,
    Format,
    Output,
    Picture,
)

__all__ = [
    "LONGEST_SOURCE",
    "DetectedEngine",
    "DrawingEngine",
    "DrawingError",
    "EngineMissing",
    "Format",
    "Output",
    "Picture",
    "draw",
    "engine_names",
    "engines_in_force",
]
