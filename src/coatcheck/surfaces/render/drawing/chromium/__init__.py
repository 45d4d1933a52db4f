"""Draw Mermaid with Mermaid itself in a warm Chromium, for formulas and other exclusive features.

A browser is a very large program. These rules keep it small, short-lived and isolated:

1. **One browser, one page.** It is started with the first diagram and draws one at a time
   (`engine.py`). The page contains Mermaid, our fonts and a few functions of ours (`page.py`,
   `page.js`). We use Chromium's DevTools protocol over a pipe (`pipe.py`). No port is open, and
   nothing else is installed.
2. **It does not outlive its parent.** It runs under the sandbox's supervisor, which ends all of its
   processes and deletes its profile as soon as our process is gone, whatever the signal
   (`browser.py`). The pipe closes at the same time, which also ends Chromium.
3. **It reaches nothing.** The sandbox allows reading the system's libraries and writing its own
   profile, without network. The page has no origin, is offline, and has a policy that allows no
   script, frame or URL. Mermaid runs in strict mode, and a source cannot change that. If the only
   sandbox is resource limits, no browser is started.
4. **It is replaced** if a diagram takes too much time or memory, or if it crashed, grew too large,
   drew its share or is old. The next diagram starts another.
5. **Its output is sanitized like any other.** Mermaid draws labels as HTML, which `sanitize.py`
   would drop, so `page.js` converts them to SVG text in place. A PNG is made from the sanitized
   SVG.

Chromium's own sandbox is off (`--no-sandbox`): it cannot be created inside ours, and not at all as
root. Our sandbox confines the browser, and `coatcheck doctor` says which one that is.
"""

from coatcheck.surfaces.render.drawing.chromium.engine import ChromiumEngine

__all__ = ["ChromiumEngine"]
