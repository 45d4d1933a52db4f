"""E-mail: its headers as text, its body, and the names of what is attached.

Of a body in several forms the plain one is read, or the HTML where that is all there is. What is
attached is named and not read: whoever wants it found sends it as a document of its own.

Headers are taken by the standard library's older rules: its newer ones take milliseconds for each
header that says what a part is, and a message may have any number of parts.
"""

from __future__ import annotations

from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path
from typing import cast

from coatcheck.surfaces.ingest.reading.draft import Draft, on_one_line
from coatcheck.surfaces.ingest.reading.encodings import decode
from coatcheck.surfaces.ingest.reading.unreadable import Unreadable
from coatcheck.surfaces.ingest.reading.web import declared_charset, read_html

_SHOWN = ("From", "To", "Cc", "Date", "Subject")


def read_email(path: Path, draft: Draft) -> None:
    """Read a message as mail programs save it (.eml)."""
    with path.open("rb") as file:
        parser = BytesParser(EmailMessage, policy=compat32)
        message = cast("EmailMessage", parser.parse(file))
    headers = {name.lower(): value for name, value in reversed(list(message.raw_items()))}
    shown = {name: _written(headers.get(name.lower(), "")) for name in _SHOWN}
    draft.paragraph("\n".join(f"{name}: {value}" for name, value in shown.items() if value))
    body = message.get_body(("plain", "html"))
    if body is not None:
        _add(cast("EmailMessage", body), draft)
    for part in message.iter_attachments():
        name = _written(part.get_filename() or "")
        if part.get_content_maintype() == "text" and not name:
            _add(part, draft)
        else:
            kind = part.get_content_type()
            draft.item(f"Attachment: {name or 'without a name'} ({kind})")
    draft.title = shown["Subject"]


def _add(part: EmailMessage, draft: Draft) -> None:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return
    is_html = part.get_content_subtype() == "html"
    declared = part.get_content_charset() or (declared_charset(raw) if is_html else None)
    try:
        text = decode(raw, declared).text
    except Unreadable:
        draft.problem("a part of the message's body is no text")
        return
    if is_html:
        read_html(text, draft)
        return
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        draft.paragraph(paragraph)


def _written(value: str) -> str:
    """Return a header as its writer meant it: with its words decoded, and what is no ASCII."""
    try:
        text = decode(value.encode("utf-8", "surrogateescape")).text
    except Unreadable:
        return ""
    try:
        return on_one_line(str(make_header(decode_header(text))))
    except (HeaderParseError, LookupError, ValueError):
        return on_one_line(text)
