"""E-mail: its headers as text, its body, and the names of what is attached.

Of a body in several forms the plain one is read, or the HTML where that is all there is. What is
attached is named and not read: whoever wants it found sends it as a document of its own.

Headers are taken by the standard library's older rules: its newer ones take milliseconds for each
header that says what a part is, and a message may have any number of parts.

The work is bounded for hostile messages. The standard library matches each line against the
boundary of every part around it, so nesting is limited. Its parsers of header values take quadratic
time, so they see only the beginning of a value. The preferred form of an alternative is chosen
bottom-up, once for each part.
"""

from __future__ import annotations

from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from pathlib import Path
from typing import Any

from coatcheck.surfaces.ingest.readers.draft import Draft, on_one_line
from coatcheck.surfaces.ingest.readers.encodings import decode
from coatcheck.surfaces.ingest.readers.errors import HOSTILE, UnreadableDocument
from coatcheck.surfaces.ingest.readers.web import declared_charset, read_html

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# Mail servers reject messages that nest deeper (Sendmail: 20, Postfix: 100).
_DEEPEST = 32
# A boundary has at most 70 characters, and a file name seldom more than 255.
_LONGEST_PARAMETERS = 2_000
_LONGEST_HEADER = 10_000


class _Part(Message):
    """A message or a part of one, with limits on nesting and on the length of parameters."""

    depth = 0

    def attach(self, payload: Any) -> None:
        """Add a part; the parser calls this before it reads the part."""
        payload.depth = self.depth + 1
        if payload.depth > _DEEPEST:
            said = f"the message has more than {_DEEPEST} parts within each other"
            raise UnreadableDocument(HOSTILE, said)
        super().attach(payload)

    def get(self, name: str, failobj: Any = None) -> Any:
        """Return the beginning of a header's value."""
        value = super().get(name, failobj)
        return value[:_LONGEST_PARAMETERS] if isinstance(value, str) else value


def read_email(path: Path, draft: Draft) -> None:
    """Read a message as mail programs save it (.eml)."""
    with path.open("rb") as file:
        message = BytesParser(_Part, policy=compat32).parse(file)
    headers = {name.lower(): value for name, value in reversed(list(message.raw_items()))}
    shown = {name: _written(headers.get(name.lower(), "")) for name in _SHOWN}
    draft.paragraph("\n".join(f"{name}: {value}" for name, value in shown.items() if value))
    for part in _parts(message):
        name = _written(part.get_filename() or "")
        # Where something says that it has parts and has none, it is a text.
        if not name and part.get_content_maintype() in ("text", "multipart"):
            _add(part, draft)
        else:
            kind = part.get_content_type()
            draft.item(f"Attachment: {name or 'without a name'} ({kind})")
    draft.title = shown["Subject"]


def _parts(message: Message) -> list[Message]:
    """Return the parts to read, in order; of an alternative those of its preferred form."""
    inner = message.get_payload()
    if not isinstance(inner, list) or message.get_content_maintype() != "multipart":
        return [message]
    forms = [_parts(part) for part in inner if isinstance(part, Message)]
    if message.get_content_subtype() == "alternative" and forms:
        return min(forms, key=_preference)
    return [part for form in forms for part in form]


def _preference(form: list[Message]) -> int:
    kinds = {part.get_content_type() for part in form}
    return 0 if "text/plain" in kinds else 1 if "text/html" in kinds else 2


def _add(part: Message, draft: Draft) -> None:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return
    is_html = part.get_content_subtype() == "html"
    declared = part.get_content_charset() or (declared_charset(raw) if is_html else None)
    try:
        text = decode(raw, declared).text
    except UnreadableDocument:
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
        text = decode(value[:_LONGEST_HEADER].encode("utf-8", "surrogateescape")).text
    except UnreadableDocument:
        return ""
    try:
        return on_one_line(str(make_header(decode_header(text))))
    except (MessageError, LookupError, ValueError):
        return on_one_line(text)
