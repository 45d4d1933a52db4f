"""Documents, passages and vectors, and the search over them.

    base.py         the seam and its values
    open.py         from settings to an index
    words.py        what counts as a word, on every store alike
    ranking.py      one ranking out of two
    sqlite/         apsw, FTS5 and sqlite-vec
    postgres/       asyncpg, tsvector and pgvector
"""
