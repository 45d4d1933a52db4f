"""A virtual environment for each peer, created on demand, kept until its requirements change."""

from __future__ import annotations

import functools
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / ".bench"
REQUIREMENTS = Path(__file__).parent / "peers"


class Unavailable(Exception):
    """A peer that could not be installed."""


def without_paths(text: str) -> str:
    """Remove local paths from a message for the report."""
    return text.replace(str(ROOT), ".").replace(str(Path.home()), "~")


@functools.cache
def python_for(peer: str | None) -> Path:
    """Return the interpreter that has a peer installed; None is our own."""
    if peer is None:
        return Path(sys.executable)
    requirements = REQUIREMENTS / f"requirements-{peer}.txt"
    folder = FOLDER / peer
    python = folder / "bin" / "python"
    installed = folder / "installed.txt"
    wanted = requirements.read_text()
    if installed.exists() and installed.read_text() == wanted:
        return python
    print(f"installing {', '.join(wanted.split())} under {folder.relative_to(ROOT)}", flush=True)
    venv.EnvBuilder(with_pip=True, clear=True).create(folder)
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "-r", str(requirements)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        print(done.stderr, file=sys.stderr)
        raise Unavailable(f"pip could not install {', '.join(wanted.split())}")
    installed.write_text(wanted)
    return python
