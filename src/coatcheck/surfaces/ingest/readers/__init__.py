"""Files of any format to their text.

    from coatcheck.surfaces.ingest.readers import UnreadableDocument, read

    extracted = read(path, "report.pdf", "application/pdf")

Reading is given a file and nothing else: it fetches nothing, runs nothing and writes nothing. Files
are hostile all the same and some parsers are C, so whoever calls this for a stranger does so in a
process of its own.

    reading.py      the one call, and what each format is read by surfaces/ingest/readers/detect.py
    which format a file is of (sources.py: which language code is in) draft.py        a text while
    it is read: blocks, pages, problems encodings.py    bytes to text language.py     which language
    a text is in office.py       what is checked before an Office file is opened compound.py     why
    one from before 2007 is not pdf.py word.py slides.py sheets.py web.py mail.py markdown.py    one
    format each surfaces/ingest/readers/errors.py   why a document is not read
"""

from coatcheck.surfaces.ingest.readers.errors import UnreadableDocument
from coatcheck.surfaces.ingest.readers.reader import read

__all__ = ["UnreadableDocument", "read"]
