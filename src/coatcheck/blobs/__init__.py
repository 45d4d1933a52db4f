"""Where bytes live that are too large for a row: files beside the database, or an object store."""
