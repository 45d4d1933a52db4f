"""What is handed in of a document, and what is told of it when it is in its collection."""

from __future__ import annotations

import unicodedata
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
    LONGEST_METADATA,
    LONGEST_NAME,
    MOST_METADATA,
)
from coatcheck.surfaces.ingest.stages import Problem

CollectionName = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]


# Control characters, half pairs, and what breaks a line.
_NOT_IN_NAMES = frozenset({"Cc", "Cs", "Zl", "Zp"})


def is_document_name(text: str) -> bool:
    """Tell whether a text can be a document's name; a path can be one."""
    if not text.strip() or len(text) > LONGEST_NAME:
        return False
    return not any(unicodedata.category(letter) in _NOT_IN_NAMES for letter in text)


def _checked(name: str) -> str:
    if not is_document_name(name):
        raise ValueError("a document's name can be seen, and has no line breaks")
    return name


DocumentName = Annotated[
    str, StringConstraints(min_length=1, max_length=LONGEST_NAME), AfterValidator(_checked)
]
Key = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$")]
Value = Annotated[str, StringConstraints(max_length=LONGEST_METADATA)]
Metadata = Annotated[dict[Key, Value], Field(max_length=MOST_METADATA)]

ONE_SOURCE = "a document comes as a file, from a url or as a text: give one of them"


class DocumentRequest(BaseModel):
    """A document to be found in a collection, under a name: another one of that name replaces it.
    It comes as a file, from an address, or as a text.
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
    media_type: str | None = None  # what it says it is; what is in it goes before
    metadata: Metadata = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(source is not None for source in (self.file, self.url, self.text)) != 1:
            raise ValueError(ONE_SOURCE)
        return self


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
    # It was there already, byte by byte: nothing was read or embedded.
    unchanged: bool = False
    # A later version of it was handed in meanwhile, and is the one that is found.
    superseded: bool = False
    # What could not be read, while the rest could.
    problems: tuple[Problem, ...] = ()


class BatchRequest(BaseModel):
    """Documents that were handed in together: the jobs they are, in order."""

    model_config = ConfigDict(extra="forbid")

    jobs: list[str]


class BatchedDocument(BaseModel):
    """What became of one of them: in its collection, or why not."""

    job_id: str
    state: str
    document: Ingested | None = None
    code: str | None = None
    message: str | None = None


class BatchIngested(BaseModel):
    """What became of all of them, in the order in which they were handed in."""

    documents: list[BatchedDocument]
    succeeded: int
    failed: int
