"""Reading PDF: text by page, joined paragraphs, and clear errors."""

from __future__ import annotations

from pathlib import Path

import pikepdf

from coatcheck.surfaces.ingest.chunker import chunk

from .documents import LINE, changed_pdf, encrypted_pdf, pdf, read_content, read_error


def test_pages_have_their_text_and_number(tmp_path: Path) -> None:  # I02
    found = read_content(
        tmp_path, pdf("The first page.", "The second page.", title="Two pages"), "a.pdf"
    )
    assert (found.format, found.title) == ("pdf", "Two pages")
    assert found.text == "The first page.\n\nThe second page."
    assert found.page_starts == (0, found.text.index("The second"))
    assert found.page_at(found.text.index("second")) == 2
    assert found.problems == ()


def test_wrapped_lines_are_joined_and_rows_stay_separate(tmp_path: Path) -> None:
    text = f"{LINE * 4}\nHat 12\nCoat 30\nScarf 7"
    found = read_content(tmp_path, pdf(text))
    assert found.text == f"{(LINE * 4).strip()}\n\nHat 12\nCoat 30\nScarf 7"


def test_hyphenated_words_are_joined(tmp_path: Path) -> None:
    assert (
        "a ticket for the cloakroom"
        in read_content(tmp_path, pdf("a ticket for the cloak-\nroom")).text
    )


def test_outline_entries_are_headings(tmp_path: Path) -> None:
    outline = {"At the door": 0, "Lost tickets": 1}
    content = pdf(f"At the door\n{LINE}", f"Lost tickets\n{LINE}", outline=outline)
    found = read_content(tmp_path, content)
    assert found.text.startswith("# At the door\n\nEvery coat")
    assert found.text[found.page_starts[1] :].startswith("## Lost tickets\n\nEvery coat")


def test_line_that_looks_like_a_heading_is_escaped(tmp_path: Path) -> None:
    assert read_content(tmp_path, pdf("# of coats: 12")).text == "\\# of coats: 12"


def test_pdf_is_detected_by_its_content(tmp_path: Path) -> None:
    content = b"\n\n" + pdf("Found by its content.")
    assert read_content(tmp_path, content, "notes.txt", "text/plain").format == "pdf"


def test_generated_title_is_ignored(tmp_path: Path) -> None:
    content = pdf("Text.", title="Microsoft Word - draft7.doc")
    assert read_content(tmp_path, content, "report.pdf").title == "report.pdf"


def test_picture_page_is_a_problem_and_the_others_are_read(tmp_path: Path) -> None:
    found = read_content(tmp_path, pdf("One.", None, "Three."))
    assert [(problem.page, problem.reason) for problem in found.problems] == [
        (2, "no text: this page is a picture")
    ]
    assert [(passage.page, passage.text) for passage in chunk(found)] == [(1, "One.\n\nThree.")]
    assert found.page_at(found.text.index("Three")) == 3


def test_scanned_pdf_has_no_text(tmp_path: Path) -> None:
    assert read_error(tmp_path, pdf(None, None, None)) == (
        "document-no-text",
        "no text: 3 pages are pictures",
    )


def test_empty_pages_have_no_text(tmp_path: Path) -> None:
    code, message = read_error(tmp_path, pdf("", ""))
    assert code == "document-no-text"
    assert message.startswith("no text: 2 pages")


def test_damaged_page_does_not_lose_the_rest(tmp_path: Path) -> None:  # I02
    def damage(document: pikepdf.Pdf) -> None:
        document.Root.Pages.Kids[1] = document.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font)
        )

    found = read_content(tmp_path, changed_pdf(pdf("One.", "Two.", "Three."), damage))
    assert [(problem.page, problem.reason) for problem in found.problems] == [
        (2, "this page is damaged")
    ]
    assert found.text.split() == ["One.", "Three."]
    assert found.page_at(found.text.index("Three")) == 3


def test_encrypted_pdf_is_rejected(tmp_path: Path) -> None:
    code, message = read_error(tmp_path, encrypted_pdf(pdf("Secret."), user="word"))
    assert code == "document-encrypted"
    assert message == "the PDF is encrypted: send it without a password"


def test_pdf_with_an_empty_password_is_read(tmp_path: Path) -> None:
    assert read_content(tmp_path, encrypted_pdf(pdf("Not secret."), user="")).text == "Not secret."


def test_broken_pdf_is_rejected(tmp_path: Path) -> None:
    for content in (b"%PDF-1.7\n", b"%PDF-1.7\nThis is none.", pdf("Cut off.")[:200]):
        code, message = read_error(tmp_path, content)
        assert code == "document-damaged"
        assert "Cut off" not in message
