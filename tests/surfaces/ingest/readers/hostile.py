"""Small documents that would take a naive reader very long, by format.

Each takes linear time in its reader. The comment states its earlier or possible cost.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from .documents import slides, word, workbook

Build = Callable[[], bytes]


class Sample(NamedTuple):
    """A hostile document: its format, its attack, its file name."""

    format: str
    name: str
    file: str
    build: Build


SAMPLES: list[Sample] = []


def sample(format_: str, name: str, file: str, content: str | Build) -> None:
    def encoded() -> bytes:
        assert isinstance(content, str)
        return content.encode("utf-8", "surrogateescape")

    build = encoded if isinstance(content, str) else content
    SAMPLES.append(Sample(format_, name, file, build))


def _texts(format_: str, file: str, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        sample(format_, name, file, text)


# --- e-mail

HEADERS = "From: a\nTo: b\nDate: c\nMIME-Version: 1.0\n"


def nested(kind: str, depth: int, tail: str = "hello\n") -> str:
    part = 'Content-Type: multipart/{1}; boundary="{0}"\n\n--{0}\n'
    return HEADERS + "".join(part.format(n, kind) for n in range(depth)) + f"\n{tail}"


MIXED = 'Content-Type: multipart/mixed; boundary="q"\n\n'
_texts("email", "a.eml", {
    "alternatives in alternatives": nested("alternative", 31),  # 2^depth
    "alternatives deeper than allowed": nested("alternative", 300),
    "parts in parts, then lines": nested("mixed", 31, "x\n" * 20_000),  # lines x depth
    "messages in messages": HEADERS + "Content-Type: message/rfc822\n\n" * 3_000 + "x",
    "open encoded words": f"{HEADERS}Subject: {'=?a?q?x' * 60_000}\n\nhi",  # n^2
    "encoded words": f"{HEADERS}Subject: {'=?utf-8?q?a?= =?latin-1?q?b?= ' * 8_000}\n\nhi",
    "an open parameter": f'{HEADERS}Content-Type: text/plain; a="{";" * 300_000}\n\nhi',  # n^2
    "many parameters": f"{HEADERS}Content-Type: text/plain{'; a=b' * 20_000}\n\nhi",
    "pieces of a name": HEADERS + "Content-Type: text/plain"
    + "".join(f"; name*{n}=a" for n in range(10_000)) + "\n\nhi",
    "many headers": HEADERS + "X: y\n" * 50_000 + "\nhi",
    "many parts": HEADERS + MIXED + "--q\n\nh\n" * 20_000 + "--q--",
    "boundaries alone": HEADERS + MIXED + "--q\n" * 100_000,
    "parts in unknown encodings": HEADERS + MIXED + "--q\n\n" + "--q\n\n\udce4\udcf6\udcfc" * 1_000,
    "one long line": f"{HEADERS}\n{'x' * 2_000_000}",
})  # fmt: skip

# --- HTML

_texts("html", "a.html", {
    "backticks": f"<pre>{'`' * 800_000}</pre>",  # n^2
    "closed that are open": "<div/>" * 400_000,  # depth^2
    "ends of nothing": "<div></x>" * 600_000,  # depth^2
    "ends in attributes": '<div a="</div>">' * 400_000,  # depth^2
    "ends in comments": "<div><!--</div>-->" * 400_000,  # depth^2
    "ends in raw text": "<div><textarea></div></textarea>" * 200_000,  # depth^2
    "starts behind a quote": '<title><a b="</title>' + "<div>" * 400_000 + '">',  # depth^2
    "cells in a picture": "<svg>" + "<td>" * 400_000,  # depth^2
    "attributes": "<div " + " ".join(f"a{n}" for n in range(500_000)) + ">x",  # n^2
    "options": "<select>" + "<option>" * 400_000 + "</select>x",  # n^2
    "deep, then paragraphs": "<div>" * 4_900 + "<p>x" * 20_000,
    "tables in tables": "<table><tr><td>" * 4_000 + "x",
    "lists in lists": "<ul><li>x" * 4_900,
    "fonts": "".join(f"<font size={n}>" for n in range(1_000)) + "<p>x" * 1_000,
    "links around blocks": "<a><div>" * 2_400,
    "text before cells": "<table>" + "x<td>y</td>" * 20_000,
    "open comments": "<!--" * 200_000 + "x",
    "open tags": "<a" * 200_000 + "x",
    "one huge attribute": f"<p title='{'a' * 3_000_000}'>x",
    "entities": "&NotEqualTilde;" * 50_000,
    "breaks": "<p>" + "<br>" * 100_000 + "x",
    "one wide row": "<table><tr>" + "<td>x" * 100_000,
})  # fmt: skip

# --- texts

_texts("markdown", "a.md", {
    "headings": "".join("#" * (1 + n % 6) + " a\n" for n in range(50_000)),
    "hashes": "#" * 1_000_000,
    "hashes behind": ("# " + " #" * 10_000 + "x\n") * 30,
    "underlined": "a\n=\n" * 100_000,
    "nearly underlined": ("a\n" + "=" * 5_000 + "x\n") * 100,
    "front matter": "---\n" * 100_000,
    "fences": "\n".join("`" * n for n in range(3, 1_500)),
    "tables": "|a|\n" * 100_000,
    "quotes": ">" * 500_000 + "x",
    "blanks": "a" + " " * 1_000_000 + "b",
    "lines of blanks": "a" + ("\n" + " " * 5_000) * 200 + "b",
    "ends of sentences": ("a." + "'" * 1_000) * 1_000,
    "combining characters": "a" + "\u0301" * 500_000,
    "deep lists": "".join(" " * (n % 2_000) + "- a\n" for n in range(2_000)),
})  # fmt: skip
_texts("text", "a.txt", {
    "empty lines": "x\n\n" * 200_000,
    "one long line": "x" * 3_000_000,
    "addresses": "http://" * 100_000,
    "returns": "\r" * 500_000 + "x",
})  # fmt: skip
sample("text", "bytes of no encoding", "a.txt", lambda: bytes(range(128, 256)) * 2_000)
sample("text", "ideographs", "a.txt", lambda: ("漢字仮名交じり文" * 20_000).encode("shift_jis"))
_texts("code", "a.py", {
    "modifiers on lines": "static \n" * 100_000 + "x",  # n^2
    "modifiers": "public " * 200_000 + "x",
    "empty lines": "a\n" + " \n" * 200_000 + "x",
    "inner definitions": "\n\n " * 200_000 + "x",
    "one line": "f();" * 500_000,
})  # fmt: skip

# --- PDF


def pdf_of(objects: Iterable[bytes]) -> bytes:
    made, offsets = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        offsets.append(len(made))
        made += b"%d 0 obj%bendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    size = len(offsets) + 1
    return made + (
        b"xref\n0 %d\n0000000000 65535 f \n%btrailer<</Size %d/Root 1 0 R>>startxref %d %%%%EOF"
        % (size, table, size, len(made))
    )


def shared_pages(pages: int, content: bytes) -> bytes:
    """Return a PDF whose pages share their content."""
    stream = zlib.compress(content)
    kids = b" ".join(b"%d 0 R" % (5 + n) for n in range(pages))
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 3 0 R"
    return pdf_of([
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count %d/Kids[%b]>>" % (pages, kids),
        b"<</Filter/FlateDecode/Length %d>>stream\n%b\nendstream" % (len(stream), stream),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        *[page + b"/Resources<</Font<</F 4 0 R>>>>>>"] * pages,
    ])  # fmt: skip


def outline(entries: int) -> bytes:
    """Return a PDF whose outline leads back and forth."""
    entry = b"<</Title(a)/First %d 0 R/Next %d 0 R/Dest[3 0 R/Fit]>>"
    return pdf_of([
        b"<</Type/Catalog/Pages 2 0 R/Outlines 4 0 R>>",
        b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>",
        b"<</First 5 0 R/Last 5 0 R>>",
        *(entry % (5 + n * 7 % entries, 5 + (n + 1) % entries) for n in range(entries)),
    ])  # fmt: skip


TEXT = b"BT /F 9 Tf " + b"(hello world this is text) Tj 0 -9 Td " * 3_000 + b"ET"
sample("pdf", "pages that share a text", "a.pdf", lambda: shared_pages(1_000, TEXT))
sample("pdf", "pages that share a drawing", "a.pdf",
       lambda: shared_pages(1_000, b"0 0 1 1 re f " * 20_000))  # fmt: skip
sample("pdf", "one long page", "a.pdf", lambda: shared_pages(1, TEXT * 20))
sample("pdf", "an outline in circles", "a.pdf", lambda: outline(3_000))

# --- Office


def changed(content: bytes, parts: Mapping[str, bytes | Callable[[bytes], bytes]]) -> bytes:
    """Return an Office file with some parts replaced."""
    made = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in {**dict.fromkeys(old.namelist()), **parts}:
            part = parts.get(name)
            before = old.read(name) if name in old.namelist() else b""
            new.writestr(name, part(before) if callable(part) else part or before)
    return made.getvalue()


OFFICE = "http://schemas.openxmlformats.org"
RELATED = f"{OFFICE}/officeDocument/2006/relationships"
W = f'xmlns:w="{OFFICE}/wordprocessingml/2006/main"'


def word_with(body: str) -> bytes:
    document = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    plain = word(lambda made: made.add_paragraph("hello"))
    return changed(plain, {"word/document.xml": document.encode()})


def related(target: str, kind: str, times: int) -> Callable[[bytes], bytes]:
    """Return a function that adds relationships to one part."""
    added = "".join(
        f'<Relationship Id="z{n}" Type="{RELATED}/{kind}" Target="{target}"/>' for n in range(times)
    )
    return lambda old: old.replace(b"</Relationships>", f"{added}</Relationships>".encode())


def style_chain() -> bytes:
    chain = "".join(
        f'<w:style w:styleId="s{n}"><w:basedOn w:val="s{n + 1}"/></w:style>' for n in range(60_000)
    )
    plain = word(lambda made: made.add_paragraph("hello"))
    return changed(plain, {"word/styles.xml": f"<w:styles {W}>{chain}</w:styles>".encode()})


def one_footnote_part() -> bytes:
    notes = f"<w:footnotes {W}>{'<w:footnote/>' * 20_000}</w:footnotes>"
    plain = word(lambda made: made.add_paragraph("hello"))
    return changed(plain, {
        "word/_rels/document.xml.rels": related("footnotes.xml", "footnotes", 3_000),
        "word/footnotes.xml": notes.encode(),
    })  # fmt: skip


RUN = "<w:r><w:t>x</w:t></w:r>"
CELL = f"<w:tc><w:p>{RUN}</w:p></w:tc>"
NESTED_TABLE = "<w:tbl><w:tr><w:tc>" * 80 + f"<w:p>{RUN}</w:p>" + "</w:tc></w:tr></w:tbl>" * 80
sample("docx", "a chain of styles", "a.docx", style_chain)  # n^2
sample("docx", "footnotes that are one part", "a.docx", one_footnote_part)  # times the relations
sample("docx", "tables in tables", "a.docx", lambda: word_with(NESTED_TABLE))
sample("docx", "paragraphs in paragraphs", "a.docx", lambda: word_with(
    "<w:p>" * 240 + f"<w:r><w:t>{'x' * 100_000}</w:t></w:r>" + "</w:p>" * 240))  # fmt: skip
sample("docx", "one wide row", "a.docx", lambda: word_with(
    f"<w:tbl><w:tr>{CELL * 30_000}</w:tr></w:tbl>"))  # fmt: skip
sample("docx", "one long paragraph", "a.docx", lambda: word_with(f"<w:p>{RUN * 30_000}</w:p>"))
sample("docx", "attributes", "a.docx", lambda: word_with(
    "<w:p " + " ".join(f'w:a{n}="1"' for n in range(20_000)) + f">{RUN}</w:p>"))  # fmt: skip

SHAPE = (
    '<p:sp><p:nvSpPr><p:cNvPr id="%d" name="a"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr><p:spPr/>'
    "<p:txBody><a:bodyPr/><a:p><a:r><a:t>hello</a:t></a:r></a:p></p:txBody></p:sp>"
)
TABLE = (
    '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="77" name="t"/><p:cNvGraphicFramePr/><p:nvPr/>'
    '</p:nvGraphicFramePr><p:xfrm><a:off x="0" y="0"/><a:ext cx="1" cy="1"/></p:xfrm><a:graphic>'
    f'<a:graphicData uri="{OFFICE}/drawingml/2006/table"><a:tbl><a:tblPr/><a:tblGrid/>%s</a:tbl>'
    "</a:graphicData></a:graphic></p:graphicFrame>"
)
SLIDE_CELL = "<a:tc><a:txBody><a:bodyPr/><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc>"
GROUP = (
    '<p:grpSp><p:nvGrpSpPr><p:cNvPr id="9" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr>'
    "<p:grpSpPr/>"
)


def slide_with(shapes: str, times: int = 1) -> bytes:
    """Return a presentation that lists one slide with these shapes so many times."""
    plain = slides(lambda made: made.slides.add_slide(made.slide_layouts[1]))
    return changed(plain, {
        "ppt/slides/slide1.xml": lambda old: old.replace(
            b"</p:spTree>", f"{shapes}</p:spTree>".encode()
        ),
        "ppt/presentation.xml": lambda old: re.sub(
            rb"<p:sldId [^>]*/>", lambda found: found[0] * times, old
        ),
    })  # fmt: skip


SHAPES = "".join(SHAPE % (n + 10) for n in range(1_000))
sample("pptx", "one slide many times", "a.pptx", lambda: slide_with(SHAPES, 2_000))  # times
sample(
    "pptx",
    "a tall table",
    "a.pptx",
    lambda: slide_with(TABLE % (f"<a:tr h='1'>{SLIDE_CELL}</a:tr>" * 5_000)),
)  # n^3
sample("pptx", "a wide table", "a.pptx", lambda: slide_with(
    TABLE % f"<a:tr h='1'>{SLIDE_CELL * 10_000}</a:tr>"))  # fmt: skip
sample("pptx", "groups in groups", "a.pptx", lambda: slide_with(
    GROUP * 100 + SHAPE % 99 + "</p:grpSp>" * 100 + SHAPE % 98))  # fmt: skip
sample("pptx", "shapes", "a.pptx", lambda: slide_with(SHAPES * 8))

SHEET = f'<worksheet xmlns="{OFFICE}/spreadsheetml/2006/main"><sheetData>%s</sheetData></worksheet>'


def sheet_with(rows: str, **parts: bytes | Callable[[bytes], bytes]) -> bytes:
    """Return a workbook with a sheet of these rows, and other parts by their names in `xl/`."""
    others = {f"xl/{name}.xml": part for name, part in parts.items()}
    sheet = (SHEET % rows).encode()
    return changed(workbook({"a": [["x"]]}), {"xl/worksheets/sheet1.xml": sheet, **others})


def sheets_of_one_part(sheets: int) -> bytes:
    def listed(old: bytes) -> bytes:
        return re.sub(
            rb"<sheet [^>]*/>",
            lambda found: b"".join(
                found[0].replace(b'name="a"', b'name="a%d"' % n) for n in range(sheets)
            ),
            old,
        )

    return sheet_with("<row/>" * 50_000, workbook=listed)


def long_format() -> bytes:
    made = "<numFmts><numFmt numFmtId='200' formatCode='{}'/></numFmts>".format("[$" * 300_000)
    styles = f'<styleSheet xmlns="{OFFICE}/spreadsheetml/2006/main">{made}'
    styles += "<cellXfs><xf numFmtId='200'/></cellXfs></styleSheet>"
    return sheet_with("<row><c><v>1</v></c></row>", styles=styles.encode())


sample("xlsx", "sheets that are one part", "a.xlsx", lambda: sheets_of_one_part(300))  # times
sample("xlsx", "a long number format", "a.xlsx", long_format)  # n^2
sample("xlsx", "a row far down", "a.xlsx", lambda: sheet_with(
    '<row r="99999999999"><c r="A9"><v>1</v></c></row>'))  # fmt: skip
sample("xlsx", "cells far right", "a.xlsx", lambda: sheet_with(
    '<row r="1"><c r="XFD1"><v>1</v></c></row>' * 2_000))  # fmt: skip
sample("xlsx", "one wide row", "a.xlsx", lambda: sheet_with(
    f"<row>{'<c><v>1</v></c>' * 50_000}</row>"))  # fmt: skip
sample("xlsx", "long numbers", "a.xlsx", lambda: sheet_with(
    f"<row><c><v>{'1' * 4_000}</v></c></row>" * 500))  # fmt: skip
