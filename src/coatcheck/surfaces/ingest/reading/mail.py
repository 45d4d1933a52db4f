"""E-mail: its headers as text, its body, and the names of what is attached.

Of a body in several forms the plain one is read, or the HTML where that is all there is. What is
attached is named and not read: whoever wants it found sends it as a document of its own.
"""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage
from pathlib import Path
from typing import cast

from coatcheck.surfaces.ingest.reading.draft import Draft, Full, on_one_line
from coatcheck.surfaces.ingest.reading.encodings import decode
from coatcheck.surfaces.ingest.reading.unreadable import Unreadable
from coatcheck.surfaces.ingest.reading.web import declared_charset, read_html

_SHOWN = ("From", "To", "Cc", "Date", "Subject")


def read_email(path: Path, draft: Draft) -> None:
    """Read a message as mail programs save it (.eml)."""
    with path.open("rb") as file:
        message = email.message_from_binary_file(file, policy=email.policy.default)
    headers = {name: _header(message, name, draft) for name in _SHOWN}
    draft.title = headers["Subject"]
    draft.paragraph("\n".join(f"{name}: {value}" for name, value in headers.items() if value))
    title = draft.title
    body = message.get_body(("plain", "html"))
    if body is not None:
        _add(cast("EmailMessage", body), draft)
    for part in message.iter_attachments():
        if part.get_content_maintype() == "text" and not _name(part):
            _add(part, draft)
        else:
            name = _name(part) or "without a name"
            draft.item(f"Attachment: {name} ({part.get_content_type()})")
    draft.title = title


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


def _header(message: EmailMessage, name: str, draft: Draft) -> str:
    try:
        return on_one_line(str(message.get(name, "")))
    except Full:
        raise
    except Exception:  # noqa: BLE001 - the standard library's parser fails in many ways on spam
        draft.problem(f"the header {name} cannot be read")
        return ""


def _name(part: EmailMessage) -> str:
    try:
        return on_one_line(part.get_filename() or "")
    except Exception:  # noqa: BLE001 - as above
        return ""
