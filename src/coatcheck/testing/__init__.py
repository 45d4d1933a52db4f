"""Tools for tests of code that builds on Coatcheck.

`run_inline` runs a job without a server or a store; `serve` starts a real server; the conformance
suite and the state machine (extra `coatcheck[testing]`) check an implementation of a store.
"""

from coatcheck.testing.inline import Crash, FakeClock, InlineRun, run_inline
from coatcheck.testing.server import LiveServer, serve

__all__ = ["Crash", "FakeClock", "InlineRun", "LiveServer", "run_inline", "serve"]
