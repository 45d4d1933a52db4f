"""Which sandbox there is, why none stronger, and what to do."""

from __future__ import annotations

import logging
import sys

import pytest

from coatcheck.errors import ConfigurationError
from coatcheck.sandbox import (
    SandboxAccess,
    SandboxBackend,
    SandboxLimits,
    confine,
    detect_sandbox,
)
from coatcheck.sandbox import detect as looking


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A process that has not looked yet, on a machine that can be made poorer."""
    fresh = looking.detect_sandbox.__wrapped__
    monkeypatch.setattr(looking, "detect_sandbox", fresh)
    return monkeypatch


def test_the_strongest_that_works_is_taken() -> None:
    found = detect_sandbox()
    works = [backend for backend in SandboxBackend if looking.why_unavailable(backend) is None]
    assert found.backend is works[0]
    assert bool(found.why) is bool(found.advice) is (found.backend is not SandboxBackend.LANDLOCK)


def test_it_says_what_is_missing_and_what_to_do(
    without: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without.setitem(sys.modules, "sandlock", None)  # as where it is not installed
    without.setenv("PATH", "/nowhere")
    with caplog.at_level(logging.WARNING, logger="coatcheck.sandbox"):
        found = looking.detect_sandbox()
    assert found.backend is SandboxBackend.RLIMITS
    assert "sandlock is not installed" in found.why
    assert "bwrap is not installed" in found.why
    assert "coatcheck[sandbox]" in found.advice
    assert "bubblewrap" in found.advice
    assert "sandbox unavailable" in caplog.text


def test_a_strength_that_is_not_there_is_refused(without: pytest.MonkeyPatch) -> None:
    without.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match="bwrap is not installed"):
        confine(
            ["true"],
            access=SandboxAccess(),
            limits=SandboxLimits(),
            backend=SandboxBackend.BUBBLEWRAP,
        )


@pytest.mark.parametrize("argv", [[], ["echo", "a\0b"]])
def test_a_command_that_cannot_be_one_is_refused(argv: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="command"):
        confine(argv, access=SandboxAccess(), limits=SandboxLimits())
