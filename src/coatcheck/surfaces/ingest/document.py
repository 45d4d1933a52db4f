"""Values of the pipeline: requests, stages and results."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from coatcheck.model.names import NAME_PATTERN
from coatcheck.model.upload import Upload
from coatcheck.surfaces.ingest.constants import (
    DEFAULT_COLLECTION,
    MAX_METADATA_KEYS,
    MAX_METADATA_LENGTH,
    MAX_NAME_LENGTH,
)

CollectionName = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]


# Control characters, lone surrogates and line separators.
_NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def is_document_name(text: str) -> bool:
    """Report whether a text is a valid document name; a path is one."""
    if not text.strip() or len(text) > MAX_NAME_LENGTH:
        return False
    return not any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in text)


def _check_name(name: str) -> str:
    if not is_document_name(name):
        raise ValueError("a document's name must not be blank and must have no line breaks")
    return name


DocumentName = Annotated[
    str, StringConstraints(min_length=1, max_length=MAX_NAME_LENGTH), AfterValidator(_check_name)
]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
Value = Annotated[str, StringConstraints(max_length=MAX_METADATA_LENGTH)]
Metadata = Annotated[dict[Key, Value], Field(max_length=MAX_METADATA_KEYS)]

ONE_SOURCE = "a document needs exactly one of file, url and text"


class DocumentRequest(BaseModel):
    """A document to ingest into a collection, as a file, from a URL or as a text.

    It replaces the document of the same name in the collection.
    """

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"name": "note.txt", "text": "Coats are kept for a day."}]},
    )

    collection: CollectionName = DEFAULT_COLLECTION
    name: DocumentName
    file: Upload | None = None
    url: str | None = None
    text: str | None = None
    media_type: str | None = None  # as declared by the sender; the detected format takes precedence
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(source is not None for source in (self.file, self.url, self.text)) != 1:
            raise ValueError(ONE_SOURCE)
        return self


class _StageValue(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Problem(_StageValue):
    """A part of a document that could not be read."""

    page: int | None  # None: not of a single page
    reason: str


class Extracted(_StageValue):
    """The text of a document, as Markdown if the document has a structure.

    Headings are lines that begin with `#`; table rows are lines with `|` between the cells. A plain
    text, a Markdown file and source code are unchanged, so offsets are those of the file.
    """

    format: str  # pdf, docx, pptx, xlsx, html, markdown, text, email, code
    title: str
    text: str
    # Where in the text each page (slide, sheet) begins; empty if the document has no pages.
    page_starts: tuple[int, ...] = ()
    language: str | None = None  # ISO 639-1; for source code, the programming language
    encoding: str | None = None  # of a text file
    problems: tuple[Problem, ...] = ()

    def page_at(self, offset: int) -> int | None:
        """Return the page, counted from 1, that contains an offset of the text."""
        return bisect_right(self.page_starts, offset) or None


class Chunk(_StageValue):
    """A passage, the unit of search: text[start:end] of its document."""

    ordinal: int
    text: str
    start: int
    end: int
    page: int | None
    # The headings above it, outermost first. They are embedded with the text but not part of it.
    headings: tuple[str, ...] = ()


class Ingested(BaseModel):
    """A document that is in its collection."""

    document_id: str
    collection: str
    name: str
    title: str
    format: str
    language: str | None
    sha256: str
    size: int
    passages: int
    # The collection had exactly these bytes already: nothing was read or embedded.
    unchanged: bool = False
    # A later version was submitted in the meantime and is the one in the index.
    superseded: bool = False
    # Parts that could not be read.
    problems: tuple[Problem, ...] = ()


class BatchRequest(BaseModel):
    """Documents that were submitted together: their jobs, in order."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[str]


class BatchedDocument(BaseModel):
    """The outcome of one document: its result, or the error."""

    job_id: str
    state: str
    document: Ingested | None = None
    code: str | None = None
    message: str | None = None


class BatchIngested(BaseModel):
    """The outcomes of all documents, in the order of submission."""

    documents: list[BatchedDocument]
    succeeded: int
    failed: int
