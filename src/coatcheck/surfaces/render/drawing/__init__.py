"""Draw diagrams: source text in, a picture out, and no other effects.

    picture = draw("flowchart LR\n  A --> B", Format.MERMAID, Output.PNG)

Sources are hostile, so this package promises:

1. A source is text of at most `LONGEST_SOURCE` bytes. Any problem with it is a `DrawingError` that
   says where it is (`errors.py`), and never any other exception.
2. Drawing reads no files and makes no requests. Mermaid is laid out in this process by a library
   that does neither (`mermaid.py`) or, if chosen, in a browser that cannot (`chromium/`). D2 is a
   program that could read files and fetch URLs, so such sources are rejected (`d2_source.py`), and
   the program runs in a sandbox (`d2.py`).
3. Every SVG is rewritten from a list of allowed elements before anybody sees it (`sanitize.py`): no
   scripts, no events, nothing that is fetched. A PNG is made from that SVG, not from the engine's.
4. Labels are measured with the font they are drawn with (`fonts.py`), which is installed with the
   package, so a PNG shows every label in full, on every machine alike.
5. The same source yields the same bytes.

Drawing may take long: some small sources have expensive layouts. D2's process and the browser have
limits here, and the library bounds the work of its layout. The caller must bound its time and
memory by drawing in a process that can be killed.
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
