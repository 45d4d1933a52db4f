"""Read e-mail: its headers as text, its body, and the names of its attachments.

Of a body in alternative forms the plain text is read, or else the HTML. Attachments are named but
not read; ingest them as documents of their own.

Headers are read with the standard library's compat32 policy: the newer policy takes milliseconds
for each header that describes a part, and a message may have any number of parts.

The work is bounded for hostile messages. The standard library matches each line against the
boundary of every enclosing part, so nesting is limited. Its parsers of header values take quadratic
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

from coatcheck.surfaces.ingest.readers.encodings import decode
from coatcheck.surfaces.ingest.readers.errors import HOSTILE, UnreadableDocument
from coatcheck.surfaces.ingest.readers.text_builder import TextBuilder, collapse_whitespace
from coatcheck.surfaces.ingest.readers.web import declared_charset, read_html

_SHOWN = ("From", "To", "Cc", "Date", "Subject")
# Mail servers reject deeper nesting (Sendmail: 20, Postfix: 100).
_MAX_DEPTH = 32
# A boundary has at most 70 characters, a file name seldom more than 255.
_MAX_PARAMETERS_LENGTH = 2_000
_MAX_HEADER_LENGTH = 10_000


class _Part(Message):
    """A message or a part of one, with limits on nesting and on the length of parameters."""

    depth = 0

    def attach(self, payload: Any) -> None:
        """Add a part; the parser calls this before it reads the part."""
        payload.depth = self.depth + 1
        if payload.depth > _MAX_DEPTH:
            message = f"the message nests more than {_MAX_DEPTH} parts"
            raise UnreadableDocument(HOSTILE, message)
        super().attach(payload)

    def get(self, name: str, failobj: Any = None) -> Any:
        """Return the beginning of a header's value."""
        value = super().get(name, failobj)
        return value[:_MAX_PARAMETERS_LENGTH] if isinstance(value, str) else value


def read_email(path: Path, builder: TextBuilder) -> None:
    """Read a message in the format that mail clients save (.eml)."""
    with path.open("rb") as file:
        message = BytesParser(_Part, policy=compat32).parse(file)
    headers = {name.lower(): value for name, value in reversed(list(message.raw_items()))}
    shown = {name: _decode_header(headers.get(name.lower(), "")) for name in _SHOWN}
    builder.paragraph("\n".join(f"{name}: {value}" for name, value in shown.items() if value))
    for part in _parts(message):
        name = _decode_header(part.get_filename() or "")
        # A multipart that has no parts is a text.
        if not name and part.get_content_maintype() in ("text", "multipart"):
            _add(part, builder)
        else:
            kind = part.get_content_type()
            builder.item(f"Attachment: {name or 'without a name'} ({kind})")
    builder.title = shown["Subject"]


def _parts(message: Message) -> list[Message]:
    """Return the parts to read, in order; for an alternative, those of its preferred form."""
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


def _add(part: Message, builder: TextBuilder) -> None:
    raw = part.get_payload(decode=True)
    if not isinstance(raw, bytes):
        return
    is_html = part.get_content_subtype() == "html"
    declared = part.get_content_charset() or (declared_charset(raw) if is_html else None)
    try:
        text = decode(raw, declared).text
    except UnreadableDocument:
        builder.problem("a part of the message's body is not text")
        return
    if is_html:
        read_html(text, builder)
        return
    for paragraph in text.replace("\r\n", "\n").split("\n\n"):
        builder.paragraph(paragraph)


def _decode_header(value: str) -> str:
    """Decode a header: its encoded words, and any non-ASCII bytes."""
    try:
        text = decode(value[:_MAX_HEADER_LENGTH].encode("utf-8", "surrogateescape")).text
    except UnreadableDocument:
        return ""
    try:
        return collapse_whitespace(str(make_header(decode_header(text))))
    except (MessageError, LookupError, ValueError):
        return collapse_whitespace(text)
