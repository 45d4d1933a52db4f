"""Reading e-mail: headers, body, and the names of attachments."""

from __future__ import annotations

from pathlib import Path

from .documents import email_message, read_content, read_error

HEADERS = (
    "From: Porter <porter@example.org>\nTo: guests@example.org\n"
    "Date: Mon, 02 Nov 2026 10:00:00 +0000\nSubject: Mäntel und Hüte"
)


def test_headers_body_and_names_of_attachments_are_read(tmp_path: Path) -> None:  # I02
    message = email_message("Alle Mäntel sind da.\n\n# kein Titel\n", "<p>The same in HTML</p>")
    message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename="preise.pdf")
    found = read_content(tmp_path, message.as_bytes(), "letter.eml")
    assert (found.format, found.title, found.language) == ("email", "Mäntel und Hüte", "de")
    assert found.text == (
        f"{HEADERS}\n\nAlle Mäntel sind da.\n\n\\# kein Titel\n\n"
        "- Attachment: preise.pdf (application/pdf)"
    )


def test_html_is_read_if_there_is_no_plain_text(tmp_path: Path) -> None:
    content = email_message(html="<title>x</title><h1>News</h1><p>All <b>here</b>.").as_bytes()
    found = read_content(tmp_path, content, "letter.eml")
    assert found.text == f"{HEADERS}\n\n# News\n\nAll here."
    assert found.title == "Mäntel und Hüte"


def test_body_in_another_encoding_is_read(tmp_path: Path) -> None:
    content = email_message("Grüße vom Empfang", charset="iso-8859-1").as_bytes()
    assert "Grüße vom Empfang" in read_content(tmp_path, content, "a.eml").text


def test_message_is_detected_by_its_headers(tmp_path: Path) -> None:
    assert read_content(tmp_path, email_message("Text.").as_bytes(), "message").format == "email"
    assert read_content(tmp_path, b"From: the door\nthe way is long", "message").format == "text"


def test_message_without_shown_headers_is_its_body(tmp_path: Path) -> None:
    found = read_content(tmp_path, b"X-Odd: 1\n\nOnly this.", "a.eml")
    assert (found.title, found.text) == ("a.eml", "Only this.")


def test_unknown_encoding_of_a_body_is_guessed(tmp_path: Path) -> None:
    content = b"Subject: a\nContent-Type: text/plain; charset=nonsense\n\nGr\xc3\xbc\xc3\x9fe"
    assert read_content(tmp_path, content, "a.eml").text == "Subject: a\n\nGrüße"


def test_multipart_without_parts_is_read_as_text(tmp_path: Path) -> None:
    content = b"Subject: a\nContent-Type: multipart/mixed; boundary=x\n\nNo part begins here."
    assert read_content(tmp_path, content, "a.eml").text == "Subject: a\n\nNo part begins here."


def test_attached_messages_are_named_and_inline_texts_read(tmp_path: Path) -> None:
    message = email_message("First.")
    message.add_attachment(email_message("Inner."))
    message.add_attachment("A footer.", disposition="inline")
    text = read_content(tmp_path, message.as_bytes(), "a.eml").text
    assert text == (
        f"{HEADERS}\n\nFirst.\n\n- Attachment: without a name (message/rfc822)\n\nA footer."
    )


def test_encoded_headers_are_decoded(tmp_path: Path) -> None:
    for subject in (
        "Mäntel".encode(),
        "Mäntel".encode("cp1252"),
        b"=?utf-8?q?M=C3=A4ntel?=",
        b"=?iso-8859-1?b?TeRu?=\n =?iso-8859-1?q?tel?=",
    ):
        assert (
            read_content(tmp_path, b"Subject: " + subject + b"\n\nText", "a.eml").title == "Mäntel"
        )
    broken = b"Subject: =?\xc3\xa4?q?a?=\n\nText"
    assert read_content(tmp_path, broken, "a.eml").title == "=?ä?q?a?="
    unknown = b"Subject: =?nonsense?q?a?=\nSubject: second\n\nText"
    assert read_content(tmp_path, unknown, "a.eml").title == "=?nonsense?q?a?="


def test_excessive_nesting_is_rejected(tmp_path: Path) -> None:
    lines = [b"Subject: deep", b"MIME-Version: 1.0"]
    for depth in range(2000):
        lines += [b'Content-Type: multipart/mixed; boundary="b%d"' % depth, b"", b"--b%d" % depth]
    code, message = read_error(tmp_path, b"\n".join(lines), "deep.eml")
    assert code == "document-hostile"
    assert message == "the message nests more than 32 parts"
