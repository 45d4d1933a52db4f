"""Names and limits that several parts of the surface use."""

from __future__ import annotations

SURFACE = "ingest"
KIND = "ingest.document"
BATCH_KIND = "ingest.batch"
QUEUE = "ingest"
DEFAULT_COLLECTION = "default"

# How many passages are embedded, and on record, at a time: what a crash costs at most.
BATCH = 64
# Files that are taken in one form.
MOST_FILES = 100
LONGEST_NAME = 2_048  # of a name that was not given, an address
MOST_METADATA = 32
LONGEST_METADATA = 1_000

# Labels of a job, for its card and for lists.
COLLECTION_LABEL = "collection"
SOURCE_LABEL = "source"
FROM_URL = "url"
