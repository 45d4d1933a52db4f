"""HTML: what a reader of the page would read, in order, with its headings, lists and tables.

Scripts, styles, navigation and whatever is hidden are left out; of a link stays its text, of a
picture what is said in its place. Nothing that a page refers to is ever fetched.

A hostile page is nested as deep as it likes. What it takes to parse one grows with the square of
that, so one that is too deep is refused before; the tree is walked without recursion.

Tables are rows of cells unless something in a cell has a structure of its own (a table, a heading,
a list): then the table only places things on the page, as in most e-mail, and its cells are read
one after another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from coatcheck.surfaces.ingest.reading.draft import Draft, on_one_line
from coatcheck.surfaces.ingest.reading.unreadable import HOSTILE, Unreadable

_SKIPPED = {
    *("script", "style", "nav", "noscript", "template", "svg", "math", "iframe", "object", "head"),
    *("canvas", "audio", "video", "select", "button", "textarea", "input", "dialog"),
}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = {"ul", "ol", "menu", "dl"}
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("div", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html"),
    *("legend", "li", "main", "p", "section", "summary", "tbody", "tfoot", "thead"),
    *_HEADINGS,
    *_LISTS,
}
_BLANKS = re.compile(r"\s+")
_AROUND_BREAK = re.compile(r" *\n *")
_SPACES = re.compile(r" {2,}")
_CHARSET = re.compile(
    rb"<meta\b[^>]{0,500}?\bcharset\s*=\s*[\"']?\s*([\w.:-]{2,40})"
    rb"|^\s*<\?xml\b[^>]{0,200}?\bencoding\s*=\s*[\"']([\w.:-]{2,40})",
    re.IGNORECASE,
)


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)([^<>]*)")
# Elements that nothing is in, and those that the next of their kind ends.
_NOT_NESTED = {
    *(
        "area",
        "base",
        "br",
        "col",
        "embed",
        "hr",
        "img",
        "input",
        "link",
        "meta",
        "param",
        "source",
    ),
    *("track", "wbr", "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option"),
}
_DEEPEST = 5_000


def declared_charset(raw: bytes) -> str | None:
    """Return the encoding that a page itself says it is in."""
    found = _CHARSET.search(raw[:4096])
    return (found[1] or found[2]).decode("ascii") if found else None


def read_html(text: str, draft: Draft) -> None:
    """Read a page, or the part of one that an e-mail has."""
    if _depth(text) > _DEEPEST:
        said = f"the page has more than {_DEEPEST:,} elements within each other"
        raise Unreadable(HOSTILE, said)
    page = LexborHTMLParser(text)
    title = page.css_first("head > title")
    if title is not None and not draft.title:
        draft.title = on_one_line(title.text())
    if page.root is None:
        return
    draft.language = draft.language or _language(page.root)
    _Walk(draft).over(page.root)


def _depth(text: str) -> int:
    """Return about how deep a page is nested."""
    depth = deepest = 0
    for tag in _TAG.finditer(text):
        if tag[2].lower() in _NOT_NESTED or tag[3].endswith("/"):
            continue
        depth = max(0, depth + (-1 if tag[1] else 1))
        deepest = max(deepest, depth)
    return deepest


def _language(root: LexborNode) -> str | None:
    said = (root.attributes.get("lang") or "").split("-")[0].strip().lower()
    return said if len(said) == 2 and said.isalpha() else None


@dataclass
class _Table:
    places_only: bool = False
    cells: list[str] = field(default_factory=list)


class _Walk:
    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._inline: list[str] = []
        self._tables: list[_Table] = []
        self._lists = 0
        self._in_item = False
        self._preformatted = 0

    def over(self, root: LexborNode) -> None:
        waiting: list[tuple[LexborNode, bool]] = [(root, True)]
        while waiting:
            node, entering = waiting.pop()
            tag = node.tag or ""
            if not entering:
                self._leave(tag)
            elif tag == "-text":
                self._text(node.text_content or "")
            elif not tag.startswith("-") and tag not in _SKIPPED:
                if "hidden" in node.attributes:
                    continue
                self._enter(tag, node)
                waiting.append((node, False))
                children = list(node.iter(include_text=True))
                waiting.extend((child, True) for child in reversed(children))
        self._flush()

    def _text(self, text: str) -> None:
        self._inline.append(text if self._preformatted else _BLANKS.sub(" ", text))

    def _enter(self, tag: str, node: LexborNode) -> None:
        if tag == "br":
            self._inline.append("\n")
        elif tag == "img":
            self._text(f" {node.attributes.get('alt') or ''} ")
        elif tag == "table":
            self._break_open()
            self._flush()
            self._tables.append(_Table())
            self._draft.end_table()
        elif tag in _HEADINGS or tag in _LISTS:
            self._break_open()
            self._flush()
            self._lists += tag in _LISTS
        elif tag == "pre":
            self._flush()
            self._preformatted += 1
        elif tag in _BLOCKS:
            self._flush()
            self._in_item = self._in_item or tag in ("li", "dt", "dd")

    def _leave(self, tag: str) -> None:
        if tag in _HEADINGS:
            text = self._taken()
            if _HEADINGS[tag] == 1 and not self._draft.title:
                self._draft.title = on_one_line(text)
            self._draft.heading(_HEADINGS[tag], text)
        elif tag == "pre":
            self._preformatted -= 1
            if self._in_cell():
                self._inline.append(" ")
            else:
                self._draft.code("".join(self._inline))
                self._inline.clear()
        elif tag in ("td", "th"):
            if self._in_cell():
                self._tables[-1].cells.append(self._taken())
            self._flush()
        elif tag == "tr" and self._in_cell():
            self._draft.row(self._tables[-1].cells)
            self._tables[-1].cells = []
        elif tag == "table":
            self._flush()
            self._tables.pop()
            self._draft.end_table()
        elif tag in _BLOCKS:
            self._flush()
            self._lists -= tag in _LISTS
            self._in_item = self._in_item and tag not in ("li", "dt", "dd")

    def _in_cell(self) -> bool:
        return bool(self._tables) and not self._tables[-1].places_only

    def _break_open(self) -> None:
        """Let the table around what comes be one that only places things."""
        if self._in_cell():
            table = self._tables[-1]
            table.places_only = True
            for cell in table.cells:
                self._draft.paragraph(cell)
            table.cells = []

    def _flush(self) -> None:
        if self._in_cell():
            self._inline.append(" ")
            return
        text = self._taken()
        if self._in_item and self._lists:
            self._draft.item(text, self._lists - 1)
        else:
            self._draft.paragraph(text)

    def _taken(self) -> str:
        text = _AROUND_BREAK.sub("\n", _SPACES.sub(" ", "".join(self._inline))).strip()
        self._inline.clear()
        return text
