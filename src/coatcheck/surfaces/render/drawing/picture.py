"""Formats, outputs and engines of diagrams."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

# In bytes of UTF-8.
LONGEST_SOURCE = 256 * 1024


class Format(StrEnum):
    """The language of a diagram."""

    MERMAID = "mermaid"
    D2 = "d2"


class Output(StrEnum):
    """The format of a picture."""

    SVG = "svg"
    PNG = "png"

    @property
    def content_type(self) -> str:
        """The media type of the picture."""
        return "image/svg+xml" if self is Output.SVG else "image/png"


@dataclass(frozen=True)
class Picture:
    """A drawn diagram."""

    content: bytes
    content_type: str


@dataclass(frozen=True)
class DetectedEngine:
    """Whether an engine can draw on this machine; `coatcheck doctor` prints it."""

    engine: str
    format: Format
    version: str | None
    missing: str = ""  # what to install; empty if the engine can draw
    note: str = ""  # further information

    @property
    def ready(self) -> bool:
        """Report whether the engine can draw."""
        return not self.missing


class DrawingEngine(Protocol):
    """A library, a program or a browser that draws.

    `draw` gets a checked source (`engines.py`), from any thread. It raises DrawingError for a
    problem of the source and EngineMissing for a problem of this machine.
    """

    @property
    def name(self) -> str:
        """The name by which it is chosen."""

    @property
    def formats(self) -> frozenset[Format]:
        """The languages that it draws."""

    def draw(self, source: str, format: Format, output: Output) -> Picture:  # noqa: A002
        """Draw one diagram."""

    def in_force(self) -> tuple[DetectedEngine, ...]:
        """Report for each of its formats whether it can draw on this machine."""
