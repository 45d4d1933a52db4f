"""Several documents in one request: a job each, and one that waits for them."""

from __future__ import annotations

import pytest

from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.ingest.constants import BATCH_KIND, KIND
from tests.http.problems import read_problem

from .conftest import Serve
from .ingest_server import Ingest

pytestmark = pytest.mark.anyio


async def test_each_document_is_a_job_and_results_are_in_order(on_each_store: Serve) -> None:
    async with on_each_store() as ingest:
        answer = await ingest.send(
            ("a.txt", b"About apples."),
            ("b.bin", bytes(range(256)) * 9),
            ("c.txt", b"About cherries."),
            collection="fruit",
            metadata={"season": "autumn"},
        )
        assert answer.status_code == 202
        assert answer.json()["kind"] == BATCH_KIND
        job = await ingest.finished(answer)
        assert job["state"] == "succeeded", job
        result = job["result"]
        assert (result["succeeded"], result["failed"]) == (2, 1)
        first, second, third = result["documents"]
        assert (first["document"]["name"], third["document"]["name"]) == ("a.txt", "c.txt")
        assert (second["state"], second["code"]) == ("failed", "document-unsupported")
        assert second["document"] is None
        for each in result["documents"]:
            child = (await ingest.http.get(f"/v1/jobs/{each['job_id']}")).json()
            assert (child["parent"], child["kind"]) == (job["id"], KIND)
        found = await ingest.search("apples cherries", "fruit", filter="season:autumn")
        assert {each["document"]["name"] for each in found} == {"a.txt", "c.txt"}

        card = (await ingest.http.get(f"/v1/jobs/{job['id']}/card")).json()
        assert (card["title"], card["percent"]) == ("3 documents", 100)
        [gather] = card["steps"]
        assert (gather["name"], gather["total"]) == ("gather", 3)


async def test_idempotency_key_covers_the_whole_batch(serve: Serve) -> None:
    async with serve(works=False) as ingest:
        files = (("a.txt", b"a"), ("b.txt", b"b"))
        key = {"Idempotency-Key": "both"}
        first = await ingest.send(*files, headers=key)
        again = await ingest.send(*files, headers=key)
        assert first.json()["id"] == again.json()["id"]
        assert again.headers["idempotency-replayed"] == "true"
        assert await job_kinds(ingest) == [BATCH_KIND, KIND, KIND]
        other = await ingest.send(*reversed(files), headers=key)
        read_problem(other, 422, "idempotency-key-reused")
        assert await job_kinds(ingest) == [BATCH_KIND, KIND, KIND]


async def test_cancelling_a_batch_cancels_its_documents(serve: Serve) -> None:
    async with serve(works=False) as ingest:
        job = (await ingest.send(("a.txt", b"a"), ("b.txt", b"b"))).json()
        await ingest.http.post(f"/v1/jobs/{job['id']}/cancel")
        jobs = await ingest.engine.list_jobs(JobFilter(DEFAULT_TENANT))
        assert {each.state for each in jobs} == {"cancelled"}


async def job_kinds(ingest: Ingest) -> list[str]:
    jobs = await ingest.engine.list_jobs(JobFilter(DEFAULT_TENANT))
    return sorted(job.kind for job in jobs)


async def test_clients_cannot_submit_the_batch_kind(ingest: Ingest) -> None:
    """The batch's result would include results of jobs that a key may not read."""
    other = await ingest.finished(await ingest.send(("a.txt", b"About apples.")))
    body = {"kind": BATCH_KIND, "input": {"jobs": [other["id"]]}}
    job = await ingest.finished(await ingest.http.post("/v1/jobs", json=body))
    assert (job["state"], job["error"]["code"]) == ("failed", "not-handed-in")
    assert (await ingest.http.get(f"/v1/jobs/{job['id']}/steps")).json() == {"steps": []}


async def test_fork_of_a_batch_cannot_name_other_jobs(ingest: Ingest) -> None:
    other = await ingest.finished(await ingest.send(("c.txt", b"About cherries.")))
    sent = await ingest.send(("a.txt", b"About apples."), ("b.txt", b"About bees."))
    batch = await ingest.finished(sent)
    assert batch["kind"] == BATCH_KIND
    asked = {"from_step": 0, "input": {"jobs": [other["id"]]}}
    answer = await ingest.http.post(f"/v1/jobs/{batch['id']}/fork", json=asked)
    assert answer.status_code == 422, answer.text
