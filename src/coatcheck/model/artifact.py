"""Artifacts: named files that a job leaves behind.

A file of up to `IN_ROW_BYTES` is stored in its row, which saves reserving, syncing and naming a
blob. Its key says so and names the row. Such a file can be written together with a job's report.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from base64 import b64encode
from functools import cache
from typing import NamedTuple

from coatcheck.errors import InvalidInput

NAME_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
NAME_RULE = "use 1 to 128 letters, digits, and _ . -, and no . or - at the beginning"
# A job lists its artifacts, so their number is limited.
MOST_OF_A_JOB = 200
TOO_MANY = f"a job leaves at most {MOST_OF_A_JOB} files behind"
# The same as for a payload in its row.
IN_ROW_BYTES = 64 * 1024
UNKNOWN_TYPE = "application/octet-stream"

_NAME = re.compile(NAME_PATTERN)
_IN_ROW = "row:"
_WORD = r"[A-Za-z0-9!#$&^_.+-]{1,100}"
_TYPE = re.compile(rf'{_WORD}/{_WORD}(; ?{_WORD}=({_WORD}|"[ -!#-\[\]-~]{{0,100}}")){{0,5}}')


class Artifact(NamedTuple):
    """A named file of a job, and where its bytes are."""

    name: str
    content_type: str
    size: int
    sha256: str
    key: str
    created_at: int

    @property
    def row(self) -> tuple[str, str, str] | None:
        """The tenant, job and name of its row; None if it is a blob."""
        prefix, _, place = self.key.partition(" ")
        if prefix != _IN_ROW:
            return None
        tenant, _, job_id = place.rpartition("/")
        return tenant, job_id, self.name


class SmallFile(NamedTuple):
    """A file that is stored in its row, and its content in base64."""

    artifact: Artifact
    content: str


def small_file(
    job: tuple[str, str], name: str, content_type: str, content: bytes, now: int
) -> SmallFile:
    """Return a file to store in its row; `job` is a tenant and an id."""
    assert len(content) <= IN_ROW_BYTES, "it is too large for a row"
    tenant, job_id = job
    digest, key = hashlib.sha256(content).hexdigest(), f"{_IN_ROW} {tenant}/{job_id}"
    artifact = Artifact(name, content_type, len(content), digest, key, now)
    return SmallFile(artifact, b64encode(content).decode())


@cache
def _types() -> mimetypes.MimeTypes:
    types = mimetypes.MimeTypes()  # Python's own, without those of this machine
    for ending in (".js", ".mjs"):  # RFC 9239; Python's default from 3.12 on
        types.add_type("text/javascript", ending)
    return types


def check_name(name: object) -> str:
    """Return the name if it is valid; raises InvalidInput."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        shown = repr(name if not isinstance(name, str) else name[:40])
        raise InvalidInput(f"{shown} cannot name an artifact: {NAME_RULE}")
    return name


def check_content_type(content_type: str | None, name: str) -> str:
    """Return the media type of a file, guessed from its name if None; raises InvalidInput."""
    if content_type is None:
        guessed, encoding = _types().guess_type(name)
        return UNKNOWN_TYPE if guessed is None or encoding is not None else guessed
    if not _TYPE.fullmatch(content_type):
        shown = repr(str(content_type)[:40])
        raise InvalidInput(f"{shown} is not a media type; write one such as text/csv or image/png")
    return content_type
