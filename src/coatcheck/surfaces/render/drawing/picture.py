"""What is drawn, from what, and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

# The bytes of a source, as UTF-8.
LONGEST_SOURCE = 256 * 1024


class Format(StrEnum):
    """The language that a diagram is written in."""

    MERMAID = "mermaid"
    D2 = "d2"


class Output(StrEnum):
    """What it becomes."""

    SVG = "svg"
    PNG = "png"

    @property
    def content_type(self) -> str:
        """The media type to serve it with."""
        return "image/svg+xml" if self is Output.SVG else "image/png"


@dataclass(frozen=True)
class Picture:
    """A diagram that has been drawn."""

    content: bytes
    content_type: str


@dataclass(frozen=True)
class DetectedEngine:
    """Whether an engine can draw here; `coatcheck doctor` prints it."""

    engine: str
    format: Format
    version: str | None
    missing: str = ""  # what to install; nothing when it can draw
    note: str = ""  # what else is worth knowing

    @property
    def ready(self) -> bool:
        """Say whether it can draw."""
        return not self.missing


class DrawingEngine(Protocol):
    """One way to draw: a library, a program, a browser.

    `draw` is called with a source that has been looked at (`engines.py`), from any thread. It
    raises DrawingError for what is wrong with the source and EngineMissing for what is wrong here.
    """

    @property
    def name(self) -> str:
        """What it is chosen by."""

    @property
    def formats(self) -> frozenset[Format]:
        """The languages that it draws."""

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002
        """Draw one diagram."""

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Say for each of its formats whether it can draw here."""
