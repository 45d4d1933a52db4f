"""Document ingest: the pipeline fetch -> extract -> chunk -> embed -> index, and search.

A document is one job, and each stage is a step, so a recorded stage does not run again. Passages
are embedded in batches. Each batch is a step of its own that stages its vectors in the index, where
no search finds them, before the step is recorded. A crash therefore repeats at most the batch that
was in progress. The last step publishes: in one transaction the new passages replace the document's
old ones, so a search sees one version or the other, never a mixture.

    document.py     requests and results
    stages.py       values that one stage passes to the next
    submit.py       POST /v1/ingest: from a request to jobs
    job.py          the pipeline, in a sandboxed process (batch.py: a job that waits for several)
    service.py      the worker's side of the pipeline: index, network, secrets (messages.py)
    readers/        a file of any format to its text
    chunker.py      a text to passages that follow its structure (outline.py: their headings)
    embedding/      passages to vectors: the offline model or an endpoint
    index/          documents, passages and vectors, and search, on SQLite and PostgreSQL
    surface.py      kinds and endpoints (routes.py, handlers.py, views.py, resources.py)
"""
