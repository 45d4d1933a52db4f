"""`POST /v1/ingest`: documents in, and the job that brings them into their collection."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from coatcheck.engine.engine import Engine
from coatcheck.engine.submit.submission import LABEL_VALUE_LENGTH, Submission
from coatcheck.engine.submit.submitter import Submitted
from coatcheck.http.jobs.card_view import TITLE
from coatcheck.http.jobs.handlers import job_response
from coatcheck.http.request.idempotency import REPLAYED, read_idempotency_key
from coatcheck.http.request.prefer import read_preference
from coatcheck.http.surfaces.submit import bind_submission, submit_idempotent
from coatcheck.surfaces.ingest.constants import (
    BATCH_KIND,
    COLLECTION_LABEL,
    FROM_URL,
    KIND,
    SOURCE_LABEL,
    SURFACE,
)
from coatcheck.surfaces.ingest.document import DocumentRequest
from coatcheck.surfaces.ingest.intake import IntakeResult, taken_in

log = logging.getLogger(__name__)


async def ingest(request: Request) -> Response:
    """Take documents: one is a job, several are a job each and one that waits for them."""
    engine: Engine = request.app.state.engine
    preference = read_preference(request)
    async with taken_in(request) as taken:
        submitted = await _submit(request, taken)
        if not submitted.replayed:
            taken.uploads.clear()
    [job] = submitted.jobs
    told = {"job_id": job.id, "documents": len(taken.documents), "replayed": submitted.replayed}
    log.info("documents were handed in", extra=told)
    if preference.wait_s and not job.state.is_terminal:
        job = await engine.wait_for_job(job, preference.wait_s)
    headers = {"Location": f"/v1/jobs/{job.id}", **preference.headers}
    if submitted.replayed:
        headers[REPLAYED] = "true"
    return job_response(engine, job, 200 if job.state.is_terminal else 202, headers)


async def _submit(request: Request, taken: IntakeResult) -> Submitted:
    submissions = [_submission(each) for each in taken.documents]
    if len(submissions) == 1:
        return await submit_idempotent(request, submissions[0], taken.body)
    engine: Engine = request.app.state.engine
    children = [bind_submission(request, each) for each in submissions]

    def parent_of(ids: Sequence[str]) -> Submission:
        # Whoever may hand documents in may hand in several: it is no other right.
        return children[0]._replace(
            kind=BATCH_KIND,
            input=json.dumps({"jobs": list(ids)}),
            labels={
                TITLE: f"{len(ids)} documents",
                COLLECTION_LABEL: taken.documents[0].collection,
            },
        )

    return await engine.submit_family(
        children, parent_of, read_idempotency_key(request, taken.body)
    )


def _submission(document: DocumentRequest) -> Submission:
    source = FROM_URL if document.url is not None else "text" if document.file is None else "file"
    return Submission(
        KIND,
        document.model_dump_json(exclude_none=True),
        surface=SURFACE,
        labels={
            TITLE: document.name[:LABEL_VALUE_LENGTH],
            COLLECTION_LABEL: document.collection,
            SOURCE_LABEL: source,
        },
    )
