"""Documents that were handed in together: a job that waits for theirs.

It is done when they all are, whatever became of each: one that cannot be read leaves the others
where they are, and stands in the result with its reason.

It has the results of the jobs that its input names, so it is made by the surface alone, which has
made those jobs: whoever could name others would read what their key is not for.
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


async def ingest_batch(ctx: Context, asked: BatchRequest) -> BatchIngested:
    """Wait for documents, and return what became of them in order."""
    if ctx.surface != SURFACE:
        raise Fail("not-handed-in", "several documents are handed in by POST /v1/ingest")
    documents: list[BatchedDocument] = []
    for number, job_id in enumerate(asked.jobs):
        await ctx.progress(number, len(asked.jobs), "documents")
        documents.append(await _outcome(ctx, job_id))
    await ctx.progress(len(asked.jobs), len(asked.jobs), "documents")
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
