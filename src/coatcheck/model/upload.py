"""Uploads: files that are sent before the job that needs them.

A kind's input refers to one as an `Upload`, in JSON `{"upload": "<id>"}`. Validating an input
collects the uploads that it names. The job takes each of them over.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationInfo, model_validator

from coatcheck.errors import InvalidInput

LARGEST_UPLOAD = 500 * 1024 * 1024
# How long an upload waits for a job.
UNUSED_UPLOAD_TTL_MS = 24 * 3_600_000
NO_SUCH_UPLOAD = "there is no such upload: it has expired, or a job has taken it over"
SHA256_PATTERN = "^[0-9a-f]{64}$"
ID_PATTERN = "^[0-9A-HJKMNP-TV-Z]{26}$"
MOST_OF_A_JOB = 100

# The key in the validation context under which an input's uploads are collected.
NOTED = "coatcheck_uploads"

_NAME = re.compile(r'[^\x00-\x1f\x7f/\\"]{1,255}')


class Upload(BaseModel):
    """A file in a job's input; `ctx.file` returns its path to the handler."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    upload: Annotated[str, StringConstraints(pattern=ID_PATTERN)]

    @model_validator(mode="after")
    def _note(self, info: ValidationInfo) -> Upload:
        context: Any = info.context
        if isinstance(context, dict) and NOTED in context:
            context[NOTED].append(self.upload)
        return self


class StoredUpload(NamedTuple):
    """An uploaded file, and where its bytes are."""

    id: str
    name: str | None
    content_type: str
    size: int
    sha256: str
    key: str
    created_at: int
    expires_at: int


def check_file_name(name: str | None) -> str | None:
    """Return the base name of a file, None if it has none; raises InvalidInput."""
    if name is None or name == "":
        return None
    last = re.split(r"[/\\]", name)[-1]
    if not _NAME.fullmatch(last) or last in (".", ".."):
        raise InvalidInput("a file's name has 1 to 255 characters, and no control characters")
    return last
