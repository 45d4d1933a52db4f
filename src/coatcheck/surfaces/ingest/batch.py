"""A job that waits for the jobs of documents that were submitted together.

It succeeds once all of them have finished, whatever their outcome. A document that cannot be read
does not affect the others; the result lists it with its error.

The result includes the results of the jobs that the input names. Only the surface may submit this
kind, because it created those jobs: a caller who could name other jobs would read results that
their key does not cover.
"""

from __future__ import annotations

from coatcheck.errors import Fail, JobCancelled, JobFailed
from coatcheck.surfaces.ingest.constants import KIND, SURFACE
from coatcheck.surfaces.ingest.document import (
    BatchedDocument,
    BatchIngested,
    BatchRequest,
    Ingested,
)
from coatcheck.worker.steps.context import Context
from coatcheck.worker.steps.effects import ChildJob


async def ingest_batch(ctx: Context, request: BatchRequest) -> BatchIngested:
    """Wait for the documents' jobs and return their outcomes in order."""
    if ctx.surface != SURFACE:
        raise Fail("not-handed-in", "submit several documents with POST /v1/ingest")
    documents: list[BatchedDocument] = []
    for number, job_id in enumerate(request.jobs):
        await ctx.progress(number, len(request.jobs), "documents")
        documents.append(await _outcome(ctx, job_id))
    await ctx.progress(len(request.jobs), len(request.jobs), "documents")
    failed = sum(each.document is None for each in documents)
    return BatchIngested(documents=documents, succeeded=len(documents) - failed, failed=failed)


async def _outcome(ctx: Context, job_id: str) -> BatchedDocument:
    try:
        [result] = await ctx.gather(ChildJob(job_id, KIND))
    except JobFailed as error:
        return BatchedDocument(
            job_id=job_id, state="failed", code=error.error_code, message=error.message
        )
    except JobCancelled:
        return BatchedDocument(job_id=job_id, state="cancelled")
    return BatchedDocument(
        job_id=job_id, state="succeeded", document=Ingested.model_validate(result)
    )
