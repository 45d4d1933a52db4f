"""Markdown test documents with distinguishable passages."""

from __future__ import annotations


def long_text(marker: str, passages: int) -> str:
    """Return a text of so many sections, each one passage with a word of its own."""
    sections = [
        f"## Section {number}\n\n{marker}{number} " + "stands here among other words. " * 28
        for number in range(passages)
    ]
    return f"# All about {marker}\n\n" + "\n\n".join(sections) + "\n"
