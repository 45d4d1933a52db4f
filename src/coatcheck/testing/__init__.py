"""Tools for testing code that builds on Coatcheck.

`run_inline` runs a job without a server or a store. `serve` starts a real server. The conformance
suite and the state machine (extra `coatcheck[testing]`) check a store implementation.
"""

from coatcheck.testing.inline import Crash, FakeClock, InlineRun, run_inline
from coatcheck.testing.server import LiveServer, serve

__all__ = ["Crash", "FakeClock", "InlineRun", "LiveServer", "run_inline", "serve"]
