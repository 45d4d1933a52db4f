"""Read HTML as a visitor of the page would, in order, with its headings, lists and tables.

Scripts, styles, navigation and hidden elements are skipped. A link is reduced to its text, a
picture to its alternative text. Nothing that a page refers to is fetched.

A hostile page may nest to any depth. Parsing takes time quadratic in the depth of a page, in the
attributes of one element and in the options of one select, so a page with too many of them is
rejected before it is parsed. The tree is walked without recursion.

A table is rows of cells unless a cell has a structure of its own (a table, a heading, a list). Then
it is a layout table, as in most e-mail, and its cells are read one after another.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from coatcheck.surfaces.ingest.readers.errors import HOSTILE, UnreadableDocument
from coatcheck.surfaces.ingest.readers.text_builder import TextBuilder, collapse_whitespace

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


# An attribute as the HTML standard tokenizes it: `<` and `>` may be in a quoted value.
_ATTRIBUTE = re.compile(
    r"""[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>"'][^\s>]*+)?+)?+"""
)
# A comment or a tag: the slash of an end tag, its name, its attributes, the rest before `>`.
_TOKEN = re.compile(
    rf"<!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*+"
    rf"|<(/?)([a-zA-Z][^\s/>]*+)((?:{_ATTRIBUTE.pattern})*+)([\s/]*+)",
    re.DOTALL,
)
_START = re.compile("<[a-zA-Z]")
_VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param"),
    *("source", "track", "wbr"),
}
# Elements that the next one of their kind closes.
_ENDED_BY_NEXT = {
    *("p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option"),
}
# Elements whose content is text, unless they are inside foreign elements.
_CODE = {"script", "style"}
_RAW = _CODE | {"title", "textarea", "xmp", "iframe", "noembed", "noframes"}
_FOREIGN = ("svg", "math")
_MAX_DEPTH = 5_000
_MAX_ATTRIBUTES = 1_000
_MAX_OPTIONS = 20_000


def declared_charset(raw: bytes) -> str | None:
    """Return the encoding that a page declares."""
    found = _CHARSET.search(raw[:4096])
    return (found[1] or found[2]).decode("ascii") if found else None


def read_html(text: str, builder: TextBuilder) -> None:
    """Read a page, or the HTML part of an e-mail."""
    # Without CDATA sections, the check and the parser agree on quoted values.
    text = text.replace("<![CDATA[", "<!>")
    _check(text)
    page = LexborHTMLParser(text)
    title = page.css_first("head > title")
    if title is not None and not builder.title:
        builder.title = collapse_whitespace(title.text())
    if page.root is None:
        return
    builder.language = builder.language or _language(page.root)
    _Walk(builder).walk(page.root)


def _check(text: str) -> None:
    """Reject a page that would take the parser too long."""
    guard = _ComplexityGuard(text)
    position = 0
    while token := _TOKEN.search(text, position):
        position = token.end()
        if token[2]:
            position = guard.tag(token[2].lower(), token)


class _ComplexityGuard:
    """Counts the constructs that make a page slow to parse.

    The depth is an estimate that a page cannot easily lower: an end tag counts only while an
    element of its name is open, a `/` at the end of a tag does not close an HTML element, and
    within foreign elements anything nests.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: Counter[str] = Counter()
        self._depth = self._options = 0
        self._has_foreign = False
        self._unclosed: set[str] = set()  # raw elements that have no end tag

    def tag(self, name: str, token: re.Match[str]) -> int:
        """Count a tag; return where the next may begin."""
        if len(token[3]) > _MAX_ATTRIBUTES and _attributes(token[3]) > _MAX_ATTRIBUTES:
            raise _too_many(_MAX_ATTRIBUTES, "attributes in one element")
        if token[1]:
            if self._open[name]:
                self._open[name] -= 1
                self._depth -= 1
            return token.end()
        self._options += name == "option"
        if self._options > _MAX_OPTIONS:
            raise _too_many(_MAX_OPTIONS, "options")
        self._has_foreign = self._has_foreign or name in _FOREIGN
        if self._nests(name, closed=token[4].endswith("/")):
            self._open[name] += 1
            self._enter(1)
        return self._after_raw(name, token.end()) if name in _RAW else token.end()

    def _nests(self, name: str, *, closed: bool) -> bool:
        if any(self._open[foreign] for foreign in _FOREIGN):
            return not closed
        return name not in _VOID and name not in _ENDED_BY_NEXT

    def _after_raw(self, name: str, start: int) -> int:
        """Return where the content of a raw element ends; tags in it may still count."""
        if name in self._unclosed:
            return start
        end = re.compile(rf"</{name}[\s/>]", re.IGNORECASE).search(self._text, start)
        if end is None:
            self._unclosed.add(name)
            return start
        if self._has_foreign or name not in _CODE:
            self._enter(sum(1 for _ in _START.finditer(self._text, start, end.start())))
        return end.start()

    def _enter(self, elements: int) -> None:
        self._depth += elements
        if self._depth > _MAX_DEPTH:
            raise _too_many(_MAX_DEPTH, "nested elements")


def _attributes(text: str) -> int:
    return sum(1 for _ in _ATTRIBUTE.finditer(text))


def _too_many(limit: int, what: str) -> UnreadableDocument:
    return UnreadableDocument(HOSTILE, f"the page has more than {limit:,} {what}")


def _language(root: LexborNode) -> str | None:
    declared = (root.attributes.get("lang") or "").split("-")[0].strip().lower()
    return declared if len(declared) == 2 and declared.isalpha() else None


@dataclass
class _Table:
    is_layout: bool = False
    cells: list[str] = field(default_factory=list)


class _Walk:
    def __init__(self, builder: TextBuilder) -> None:
        self._draft = builder
        self._inline: list[str] = []
        self._tables: list[_Table] = []
        self._lists = 0
        self._in_item = False
        self._preformatted = 0

    def walk(self, root: LexborNode) -> None:
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
            self._make_layout_table()
            self._flush()
            self._tables.append(_Table())
            self._draft.end_table()
        elif tag in _HEADINGS or tag in _LISTS:
            self._make_layout_table()
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
            text = self._take_text()
            if _HEADINGS[tag] == 1 and not self._draft.title:
                self._draft.title = collapse_whitespace(text)
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
                self._tables[-1].cells.append(self._take_text())
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
        return bool(self._tables) and not self._tables[-1].is_layout

    def _make_layout_table(self) -> None:
        """Treat the enclosing table as a layout table."""
        if self._in_cell():
            table = self._tables[-1]
            table.is_layout = True
            for cell in table.cells:
                self._draft.paragraph(cell)
            table.cells = []

    def _flush(self) -> None:
        if self._in_cell():
            self._inline.append(" ")
            return
        text = self._take_text()
        if self._in_item and self._lists:
            self._draft.item(text, self._lists - 1)
        else:
            self._draft.paragraph(text)

    def _take_text(self) -> str:
        text = _AROUND_BREAK.sub("\n", _SPACES.sub(" ", "".join(self._inline))).strip()
        self._inline.clear()
        return text
