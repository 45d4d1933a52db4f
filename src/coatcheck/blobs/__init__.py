"""The blob store: bytes too large for a row, in files beside the database or in an object store."""
