"""Markdown is its own text; what is looked for is its title."""

from __future__ import annotations

import re

from coatcheck.surfaces.ingest.outline import heading_text
from coatcheck.surfaces.ingest.readers.draft import Draft, on_one_line

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.{0,10000}?\n)---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NAMED = re.compile(r"^title:([^\n]*)", re.MULTILINE)
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]([^\n]*)|^(\S[^\n]*)\n=+[ \t]*\r?$", re.MULTILINE)
_WITHIN = 20_000


def read_markdown(text: str, draft: Draft) -> None:
    """Take a Markdown file as it is, with the title from its front matter or its first heading."""
    beginning = text[:_WITHIN]
    front = _FRONT_MATTER.match(beginning)
    named = _NAMED.search(front[1]) if front else None
    heading = _HEADING.search(beginning, front.end() if front else 0)
    if named:
        draft.title = on_one_line(named[1].strip().strip("\"'"))
    elif heading:
        draft.title = on_one_line(heading_text(heading[1] or heading[2]))
    draft.own_text(text)
