"""Detect the format of a file from its content, then its name, then its media type.

A PDF, a zip archive, a compound file or a picture is recognized by its magic bytes, whatever its
name. A text has no magic bytes, so its name decides. If neither the name nor the media type
decides, its first lines do.

Compound files (OLE2) hold Office formats before 2007 and encrypted Office files. They are not read;
the error says how to convert them.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import dataclass
from email.message import Message
from pathlib import Path, PurePosixPath

from coatcheck.surfaces.ingest.readers.errors import (
    EMPTY,
    ENCRYPTED,
    UNSUPPORTED,
    UnreadableDocument,
)
from coatcheck.surfaces.ingest.readers.office import office_format

_BEGINNING = 4096
_PDF_WITHIN = 1024

_BY_ENDING = {
    **dict.fromkeys((".htm", ".html", ".xhtml", ".shtml"), "html"),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), "markdown"),
    **dict.fromkeys((".txt", ".text", ".log", ".csv", ".tsv", ".rst", ".adoc", ".srt"), "text"),
    **dict.fromkeys((".eml", ".mime"), "email"),
}
_BY_MEDIA_TYPE = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/csv": "text",
    "message/rfc822": "email",
}
_UNSUPPORTED_MAGIC = (
    (b"\x89PNG\r\n", "a picture; text in pictures is not read"),
    (b"\xff\xd8\xff", "a picture; text in pictures is not read"),
    (b"GIF8", "a picture; text in pictures is not read"),
    (b"II*\0", "a picture; text in pictures is not read"),
    (b"MM\0*", "a picture; text in pictures is not read"),
    (b"RIFF", "a picture, a video or a sound file"),
    (b"{\\rtf", "a rich text file (.rtf): save it as DOCX or PDF"),
    (b"%!PS", "a PostScript file: convert it to PDF"),
    (b"\x1f\x8b", "a compressed file: send its content"),
    (b"BZh", "a compressed file: send its content"),
    (b"\xfd7zXZ\0", "a compressed file: send its content"),
    (b"\x28\xb5\x2f\xfd", "a compressed file: send its content"),
    (b"7z\xbc\xaf\x27\x1c", "an archive: send the files in it"),
    (b"Rar!", "an archive: send the files in it"),
    (b"\x7fELF", "an executable"),
)

_HTML = re.compile(
    rb"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)
_MARKDOWN = re.compile(rb"\s*#{1,6} \S")
_HEADER = re.compile(rb"([A-Za-z][A-Za-z0-9-]{1,60}):[ \t]")
_MAIL_HEADERS = {b"from", b"to", b"subject", b"date", b"message-id", b"received", b"mime-version"}

_COMPOUND_MAGIC = bytes.fromhex("d0cf11e0a1b11ae1")

# By the name of a stream that each format has; the directory stores names in UTF-16.
_COMPOUND_STREAMS = (
    ("EncryptedPackage", ENCRYPTED, "the file is encrypted: send it without a password"),
    ("WordDocument", UNSUPPORTED, "this is a .doc of Word before 2007: save it as DOCX or PDF"),
    (
        "PowerPoint Document",
        UNSUPPORTED,
        "this is a .ppt of PowerPoint before 2007: save it as PPTX or PDF",
    ),
    ("Workbook", UNSUPPORTED, "this is an .xls of Excel before 2007: save it as XLSX"),
    ("Book", UNSUPPORTED, "this is an .xls of Excel before 2007: save it as XLSX"),
    ("__properties_version1.0", UNSUPPORTED, "this is an Outlook .msg: save it as .eml"),
)

# Extensions of source code, by language.
_LANGUAGE_ENDINGS = {
    "bash": ".bash .sh .zsh",
    "batch": ".bat .cmd",
    "c": ".c .h",
    "clojure": ".clj .cljs",
    "cpp": ".cc .cpp .cxx .hh .hpp .hxx",
    "csharp": ".cs",
    "css": ".css .less .scss",
    "dart": ".dart",
    "elixir": ".ex .exs",
    "erlang": ".erl .hrl",
    "fsharp": ".fs .fsx",
    "go": ".go",
    "graphql": ".graphql",
    "groovy": ".gradle .groovy",
    "haskell": ".hs",
    "hcl": ".hcl .tf",
    "ini": ".cfg .conf .ini .properties",
    "java": ".java",
    "javascript": ".cjs .js .jsx .mjs",
    "json": ".ipynb .json .json5 .jsonc .jsonl .ndjson",
    "julia": ".jl",
    "kotlin": ".kt .kts",
    "lua": ".lua",
    "objective-c": ".m .mm",
    "ocaml": ".ml .mli",
    "perl": ".pl .pm",
    "php": ".php",
    "powershell": ".ps1 .psm1",
    "protobuf": ".proto",
    "python": ".py .pyi .pyw",
    "r": ".r",
    "ruby": ".rake .rb",
    "rust": ".rs",
    "scala": ".sc .scala",
    "sql": ".sql",
    "svelte": ".svelte",
    "swift": ".swift",
    "toml": ".toml",
    "typescript": ".cts .mts .ts .tsx",
    "vue": ".vue",
    "xml": ".plist .svg .wsdl .xml .xsd .xsl",
    "yaml": ".yaml .yml",
    "zig": ".zig",
}
_LANGUAGE_BY_ENDING = {
    ending: language for language, all_ in _LANGUAGE_ENDINGS.items() for ending in all_.split()
}
_LANGUAGE_BY_NAME = {
    "dockerfile": "dockerfile",
    "containerfile": "dockerfile",
    "makefile": "make",
    "gnumakefile": "make",
    "cmakelists.txt": "cmake",
    "jenkinsfile": "groovy",
    "gemfile": "ruby",
    "rakefile": "ruby",
    "go.mod": "go",
}
_SHEBANG = re.compile(rb"#![^\n]*?\b(bash|sh|zsh|python|node|perl|ruby|php|lua)[0-9.]*\b")
_INTERPRETERS = {"sh": "bash", "zsh": "bash", "node": "javascript"}


@dataclass(frozen=True)
class Detected:
    """A file's format, the declared encoding of a text, and the language of source code."""

    format: str
    declared: str | None = None
    language: str | None = None


def detect(path: Path, name: str, media_type: str | None = None) -> Detected:
    """Detect a file's format; raise UnreadableDocument if it is not supported."""
    with path.open("rb") as file:
        beginning = file.read(_BEGINNING)
    if not beginning:
        raise UnreadableDocument(EMPTY, "the file is empty")
    if b"%PDF-" in beginning[:_PDF_WITHIN]:
        return Detected("pdf")
    if beginning.startswith((b"PK\3\4", b"PK\5\6")):
        return Detected(office_format(path))
    if beginning.startswith(_COMPOUND_MAGIC):
        raise _compound_file_error(path)
    for magic, what in _UNSUPPORTED_MAGIC:
        if beginning.startswith(magic):
            raise UnreadableDocument(UNSUPPORTED, f"this is {what}")
    return _text(beginning, name, media_type)


def _text(beginning: bytes, name: str, media_type: str | None) -> Detected:
    message = Message()
    message["content-type"] = media_type or "application/octet-stream"
    declared = message.get_content_charset()
    ending = PurePosixPath(name.replace("\\", "/")).suffix.lower()
    language = _language_by_name(name)
    if language:
        return Detected("code", declared, language)
    by_name = _BY_ENDING.get(ending)
    if by_name:
        return Detected(by_name, declared)
    by_type = _BY_MEDIA_TYPE.get(message.get_content_type())
    # Servers send `text/plain` for files they do not recognize.
    if by_type and by_type != "text":
        return Detected(by_type, declared)
    if _HTML.match(beginning):
        return Detected("html", declared)
    if _is_mail(beginning):
        return Detected("email", declared)
    language = _language_by_shebang(beginning)
    if language:
        return Detected("code", declared, language)
    return Detected("markdown" if _MARKDOWN.match(beginning) else "text", declared)


def _is_mail(beginning: bytes) -> bool:
    """Report whether a text begins with e-mail headers.

    Three common headers must occur, and only headers before the first empty line.
    """
    seen = set()
    for line in beginning.splitlines():
        if not line:
            break
        header = _HEADER.match(line)
        if header:
            seen.add(header[1].lower())
        elif not seen or not line.startswith((b" ", b"\t")):
            return False
    return len(seen & _MAIL_HEADERS) >= 3


def _compound_file_error(path: Path) -> UnreadableDocument:
    """Return the error for a compound file."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        for stream, code, message in _COMPOUND_STREAMS:
            if content.find(f"{stream}\0".encode("utf-16-le")) >= 0:
                return UnreadableDocument(code, message)
    return UnreadableDocument(UNSUPPORTED, "this is a file of Office before 2007: save it as PDF")


def _language_by_name(name: str) -> str | None:
    """Return the language that a file name implies, or None."""
    path = PurePosixPath(name.replace("\\", "/").lower())
    return _LANGUAGE_BY_NAME.get(path.name) or _LANGUAGE_BY_ENDING.get(path.suffix)


def _language_by_shebang(beginning: bytes) -> str | None:
    """Return the language of the interpreter in a shebang line, or None."""
    match = _SHEBANG.match(beginning)
    if match is None:
        return None
    interpreter = match[1].decode()
    return _INTERPRETERS.get(interpreter, interpreter)
