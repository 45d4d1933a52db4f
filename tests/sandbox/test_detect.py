"""Detection of the strongest backend, with a reason and advice if it is not the best."""

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
    """A process that has not detected its sandbox yet, on a machine from which parts can be
    removed.
    """
    fresh = looking.detect_sandbox.__wrapped__
    monkeypatch.setattr(looking, "detect_sandbox", fresh)
    return monkeypatch


def test_the_strongest_available_backend_is_used() -> None:
    found = detect_sandbox()
    works = [backend for backend in SandboxBackend if looking.why_unavailable(backend) is None]
    assert found.backend is works[0]
    assert bool(found.why) is bool(found.advice) is (found.backend is not SandboxBackend.LANDLOCK)


def test_a_missing_backend_is_reported_with_advice(
    without: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    without.setitem(sys.modules, "sandlock", None)  # as if it were not installed
    without.setenv("PATH", "/nowhere")
    with caplog.at_level(logging.WARNING, logger="coatcheck.sandbox"):
        found = looking.detect_sandbox()
    assert found.backend is SandboxBackend.RLIMITS
    assert "sandlock is not installed" in found.why
    assert "bwrap is not installed" in found.why
    assert "coatcheck[sandbox]" in found.advice
    assert "bubblewrap" in found.advice
    assert "sandbox unavailable" in caplog.text


def test_an_unavailable_backend_is_rejected(without: pytest.MonkeyPatch) -> None:
    without.setenv("PATH", "/nowhere")
    with pytest.raises(ConfigurationError, match="bwrap is not installed"):
        confine(
            ["true"],
            access=SandboxAccess(),
            limits=SandboxLimits(),
            backend=SandboxBackend.BUBBLEWRAP,
        )


@pytest.mark.parametrize("argv", [[], ["echo", "a\0b"]])
def test_an_invalid_command_is_rejected(argv: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="command"):
        confine(argv, access=SandboxAccess(), limits=SandboxLimits())
