"""Documents, passages and vectors, and the search over them.

Both stores share the rules in Python, so they find the same passages; each has its own SQL.

    base.py         the Index protocol and its values
    open.py         from settings to an index
    passages.py     passages as they are staged
    words.py        splitting texts into words, and choosing the words of a search
    ranking.py      checking a query, and fusing two rankings
    rows.py         rows to values
    sqlite/         apsw, FTS5 and sqlite-vec
    postgres/       asyncpg, tsvector and pgvector
"""
