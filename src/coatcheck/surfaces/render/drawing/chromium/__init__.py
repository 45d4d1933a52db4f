"""Mermaid itself, drawn in a Chromium that is kept warm: for formulas, and for what only it can.

A browser is the largest program there is, so this is how it is kept small, short-lived and alone:

1. **One browser, one page.** It is started with the first diagram and draws one at a time
   (`engine.py`). The page has Mermaid, our fonts and a few functions of ours in it (`page.py`,
   `page.js`); we speak to it through a pipe, in Chromium's own protocol (`pipe.py`). No port is
   open, and nothing else is installed.
2. **It does not outlive whoever started it.** It runs below the sandbox's supervisor, which ends
   all of its processes and removes its profile as soon as our process is gone, by whatever signal
   (`browser.py`). The protocol's pipe closes at the same time, at which Chromium ends by itself.
3. **It reaches nothing.** The sandbox gives it the system's libraries to read, its own profile to
   write, and no network. The page has no origin, a policy that lets no script, no frame and no
   address in, and is offline. Mermaid is told to be strict, and a source cannot tell it otherwise.
   Where the sandbox would be limits only, no browser is started.
4. **It is ended** when a diagram takes too long or too much, when it has died, has grown too large,
   has drawn its share, or is old. The next diagram starts another.
5. **What comes out is looked at like anything else.** Labels are HTML when Mermaid draws them, of
   which `surfaces/render/drawing/sanitize.py` would leave nothing; so `page.js` writes them as SVG
   text where they stand. A PNG is made of the inert SVG.

Chromium's own sandbox is off (`--no-sandbox`): it cannot be made inside of ours, and as root not at
all. What holds the browser is ours, and `coatcheck doctor` says which that is.
"""

from coatcheck.surfaces.render.drawing.chromium.engine import ChromiumEngine

__all__ = ["ChromiumEngine"]
