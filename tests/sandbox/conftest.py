"""Every sandbox backend of this machine, and programs that try to escape."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from coatcheck.sandbox import SandboxAccess, SandboxBackend, SandboxLimits, confine
from coatcheck.sandbox.detect import why_unavailable
from coatcheck.sandbox.runtime import PROGRAMS
from tests.debian import program_of

MIB = 1024 * 1024
# A readable one, if there is one: as root, the rlimits backend uses the user nobody.
PYTHON = os.path.realpath(shutil.which("python3", path=PROGRAMS) or sys.executable)

Attempt = Callable[..., subprocess.CompletedProcess[str]]


def _or_skip(backend: SandboxBackend) -> SandboxBackend:
    if backend is SandboxBackend.BUBBLEWRAP:
        program_of("bubblewrap", "bwrap")
    if (reason := why_unavailable(backend)) is not None:
        pytest.skip(f"{backend.value}: {reason}")
    return backend


@pytest.fixture(params=list(SandboxBackend), ids=str)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    """Each backend, including the weakest."""
    return _or_skip(request.param)


@pytest.fixture(params=[SandboxBackend.LANDLOCK, SandboxBackend.BUBBLEWRAP], ids=str)
def wall(request: pytest.FixtureRequest) -> SandboxBackend:
    """Each backend that restricts files and sockets."""
    return _or_skip(request.param)


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter, unlike pytest's own."""
    with TemporaryDirectory(prefix="coatcheck-sandbox-") as name:
        place = Path(name).resolve()
        place.chmod(0o755)
        yield place


@pytest.fixture
def folder(place: Path) -> Path:
    (place / "own").mkdir()
    return place / "own"


@pytest.fixture
def attempt(folder: Path) -> Attempt:
    """Run Python source confined, with its own folder to write to."""

    def run(
        source: str,
        backend: SandboxBackend,
        *,
        read: tuple[Path, ...] = (),
        network: bool = False,
        limits: SandboxLimits | None = None,
        stdin: str = "",
    ) -> subprocess.CompletedProcess[str]:
        confined = confine(
            [PYTHON, "-I", "-S", "-c", source],
            access=SandboxAccess(
                read=(Path(PYTHON).parent.parent, *read), write=(folder,), network=network
            ),
            limits=limits or SandboxLimits(seconds=30, memory_bytes=256 * MIB, processes=8),
            backend=backend,
        )
        assert confined.backend is backend
        return subprocess.run(
            confined.argv,
            **confined.options,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    return run
