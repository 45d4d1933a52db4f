"""Tests for people who build on Coatcheck: running a job inline with crashes, a checker of the
promises, the conformance suite and the state machine of stores.

The suite and the state machine need the extra `coatcheck[testing]`.
"""

from coatcheck.testing.inline import Crash, FakeClock, InlineRun, run_inline

__all__ = ["Crash", "FakeClock", "InlineRun", "run_inline"]
