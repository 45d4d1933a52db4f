"""Names and limits that several modules of the surface share."""

from __future__ import annotations

SURFACE = "ingest"
KIND = "ingest.document"
BATCH_KIND = "ingest.batch"
QUEUE = "ingest"
DEFAULT_COLLECTION = "default"

# Passages per embedding step: a crash repeats at most this many.
BATCH = 64
# Files in one form.
MAX_FILES = 100
MAX_NAME_LENGTH = 2_048  # a document without a name is named after its URL
MAX_METADATA_KEYS = 32
MAX_METADATA_LENGTH = 1_000

# Labels of a job, for its card and for lists.
COLLECTION_LABEL = "collection"
SOURCE_LABEL = "source"
FROM_URL = "url"
