"""Documents, passages and vectors, and the search over them.

What stores share is in Python, so that they find the same; each has its own SQL.

    base.py         the seam and its values
    open.py         from settings to an index
    surfaces/ingest/index/staged.py      passages as they are staged
    words.py        what counts as a word
    surfaces/ingest/index/ranks.py      one ranking out of two
    rows.py         rows to values
    sqlite/         apsw, FTS5 and sqlite-vec
    postgres/       asyncpg, tsvector and pgvector
"""
