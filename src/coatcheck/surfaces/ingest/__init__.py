"""Documents in, passages found: the pipeline fetch -> extract -> chunk -> embed -> index.

A document is one job, and each stage of it a step: what was fetched, extracted and chunked is on
record and does not happen again. Embedding goes in batches, each a step of its own that leaves its
vectors in the index before it is on record, where nobody sees them; a crash embeds at most the
batch again that was under way. The last step publishes: in one transaction the new passages take
the place of the document's old ones, so that a search sees either and never both nor half.

    surfaces/ingest/stages.py       what goes from one stage to the next reading/        a file of
    any format to its text surfaces/ingest/chunker.py     a text to passages that follow its
    structure (outline.py: what each is under) embedding/      passages to vectors: the offline
    model, or an endpoint index/          documents, passages and vectors, and the search over them;
    on SQLite and PostgreSQL, a seam of its own beside the store of jobs job.py          the
    pipeline itself (batch.py: several documents as one job) surface.py      the calls: taking_in.py
    for what comes in, calls.py for what is there
"""
