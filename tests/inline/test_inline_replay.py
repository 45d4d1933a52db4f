"""Inline, too, code that does not fit what is on record is refused, and what may be fine is not."""

from __future__ import annotations

import pytest

from coatcheck import App
from coatcheck.testing import run_inline
from tests.worker.script import CHANGED, FINE, KINDS, Script


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", CHANGED)
def test_code_that_has_changed_is_refused(what: str, kind: str) -> None:
    app = App()
    before, now, words = CHANGED[what]
    script = Script(app, before, now)
    run = run_inline(app, kind)
    assert run.error is not None
    assert (run.state, run.attempts, run.error.code) == ("failed", 2, "steps-changed")
    assert words in run.error.message
    assert script.ran["x"] == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", FINE)
def test_code_that_may_be_fine_is_not_refused(what: str, kind: str) -> None:
    app = App()
    script = Script(app, *FINE[what])
    run = run_inline(app, kind)
    assert run.state == "succeeded", run.error
    assert set(script.ran.values()) == {1}
