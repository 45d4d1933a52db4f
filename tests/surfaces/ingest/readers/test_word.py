"""Reading DOCX: all of its text, in order."""

from __future__ import annotations

from pathlib import Path

from docx.document import Document
from docx.enum.style import WD_STYLE_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.styles.style import ParagraphStyle

from .documents import read_content, read_error, with_part, word


def test_headings_paragraphs_lists_and_tables_are_in_order(tmp_path: Path) -> None:  # I02
    def fill(document: Document) -> None:
        document.core_properties.title = "House rules"
        document.add_heading("The cloakroom", 1)
        document.add_paragraph("Coats are taken at the door.")
        document.add_paragraph("Hats too", "List Bullet")
        document.add_paragraph("Bags not", "List Bullet")
        document.add_heading("Prices", 2)
        table = document.add_table(2, 2)
        for cell, text in zip(table._cells, ("What", "Price", "Coat | cape", "3\n4"), strict=True):
            cell.text = text
        document.add_paragraph("# of coats is counted.")

    found = read_content(tmp_path, word(fill), "rules.docx")
    assert (found.format, found.title, found.language) == ("docx", "House rules", "en")
    assert found.text == (
        "# The cloakroom\n\nCoats are taken at the door.\n\n- Hats too\n- Bags not\n\n"
        "## Prices\n\n| What | Price |\n| Coat \\| cape | 3 4 |\n\n\\# of coats is counted."
    )
    assert found.page_starts == ()


def test_first_heading_is_the_default_title(tmp_path: Path) -> None:
    def fill(document: Document) -> None:
        document.core_properties.title = ""
        document.add_heading("What this is about", 0)
        document.add_paragraph("Text.")

    assert read_content(tmp_path, word(fill)).title == "What this is about"


def test_styles_based_on_headings_are_headings(tmp_path: Path) -> None:
    def fill(document: Document) -> None:
        style = document.styles.add_style("Chapter", WD_STYLE_TYPE.PARAGRAPH)
        assert isinstance(style, ParagraphStyle)
        style.base_style = document.styles["Heading 2"]
        document.add_paragraph("Coats", "Chapter")

    assert read_content(tmp_path, word(fill)).text == "## Coats"


def test_content_controls_and_tracked_changes_are_read(tmp_path: Path) -> None:
    def fill(document: Document) -> None:
        controlled = document.add_paragraph("In a control.")._p
        control, content = OxmlElement("w:sdt"), OxmlElement("w:sdtContent")
        controlled.addprevious(control)
        control.append(content)
        content.append(controlled)
        changed = document.add_paragraph("Kept. ")
        for name, tag, text in (("w:ins", "w:t", "Added."), ("w:del", "w:delText", "Removed.")):
            change, run, written = OxmlElement(name), OxmlElement("w:r"), OxmlElement(tag)
            written.text = text
            run.append(written)
            change.append(run)
            changed._p.append(change)

    assert read_content(tmp_path, word(fill)).text == "In a control.\n\nKept. Added."


def test_merged_cells_are_read_once_and_nested_tables_in_their_cell(tmp_path: Path) -> None:
    def fill(document: Document) -> None:
        table = document.add_table(1, 3)
        table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
        inner = table.cell(0, 2).add_table(1, 2)
        inner.cell(0, 0).text, inner.cell(0, 1).text = "a", "b"

    assert read_content(tmp_path, word(fill)).text == "| wide | a b |"


def test_footnotes_are_read(tmp_path: Path) -> None:
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    note = f"""<w:footnotes xmlns:w="{space}">
      <w:footnote w:type="separator" w:id="0"><w:p><w:r><w:t>no</w:t></w:r></w:p></w:footnote>
      <w:footnote w:id="1"><w:p><w:r><w:t>As the law says.</w:t></w:r></w:p></w:footnote>
    </w:footnotes>""".encode()
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/footnotes"
    relation = f'<Relationship Id="note" Type="{kind}" Target="footnotes.xml"/></Relationships>'
    content = word(lambda document: document.add_paragraph("Text."))
    content = with_part(content, "word/footnotes.xml", lambda _: note)
    content = with_part(
        content,
        "word/_rels/document.xml.rels",
        lambda rels: rels.replace(b"</Relationships>", relation.encode()),
    )
    assert read_content(tmp_path, content).text == "Text.\n\nAs the law says."


def test_document_without_text(tmp_path: Path) -> None:
    content = word(lambda document: document.add_paragraph("  "))
    assert read_error(tmp_path, content)[0] == "document-no-text"


def test_damage_is_reported_without_quoting_the_document(tmp_path: Path) -> None:
    content = word(lambda document: document.add_paragraph("private words"))
    broken = with_part(
        content, "word/document.xml", lambda part: part.replace(b"</w:p>", b"</w:q>")
    )
    code, message = read_error(tmp_path, broken, "a.docx")
    assert code == "document-damaged"
    assert message == "the DOCX file is damaged (XMLSyntaxError)"
    assert "private" not in message


def test_document_with_macros_gets_advice(tmp_path: Path) -> None:
    plain = b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    macros = b"application/vnd.ms-word.document.macroEnabled.main+xml"
    content = with_part(
        word(lambda document: document.add_paragraph("Text.")),
        "[Content_Types].xml",
        lambda part: part.replace(plain, macros),
    )
    code, message = read_error(tmp_path, content, "a.docm")
    assert code == "document-unsupported"
    assert "save it as DOCX" in message


def test_outline_level_makes_a_paragraph_a_heading(tmp_path: Path) -> None:
    def fill(document: Document) -> None:
        properties = document.add_paragraph("Third level")._p.get_or_add_pPr()
        level = OxmlElement("w:outlineLvl")
        level.set(qn("w:val"), "2")
        properties.append(level)

    assert read_content(tmp_path, word(fill)).text == "### Third level"
