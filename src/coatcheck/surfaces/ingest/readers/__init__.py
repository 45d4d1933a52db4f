"""Read files of any supported format as text.

    from coatcheck.surfaces.ingest.readers import UnreadableDocument, read

    extracted = read(path, "report.pdf", "application/pdf")

A reader gets one file: it makes no requests, runs nothing and writes nothing. Files are hostile
nevertheless, and some parsers are written in C, so read a stranger's file in a process of its own.

    reader.py       the entry point: detect the format and call its reader
    detect.py       the format of a file, and the language of source code
    text_builder.py a text while it is read: blocks, pages, problems
    encodings.py    bytes to text
    language.py     the language of a text
    office.py       checks on an Office file before a library opens it
    pdf.py word.py slides.py sheets.py web.py mail.py    one format each
    errors.py       reasons why a document cannot be read
"""

from coatcheck.surfaces.ingest.readers.errors import UnreadableDocument
from coatcheck.surfaces.ingest.readers.reader import read

__all__ = ["UnreadableDocument", "read"]
