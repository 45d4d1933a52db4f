"""Code graphs over HTTP, to the document's letter."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from coatcheck.model.access import TenantStatus
from coatcheck.model.upload import LARGEST_UPLOAD
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.graphs.constants import GraphKind
from tests.http.arrange import worker_info

from .conftest import Graphs, Serve
from .zips import zipped

pytestmark = pytest.mark.anyio

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
ZIP = {"Content-Type": "application/zip"}


def refused(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:  # G38
    said = dict(answer.json())
    assert set(said) == {"status", "code", "message", "timestamp", "requestId", "details"}
    assert (answer.status_code, said["status"], said["code"]) == (status, status, code)
    assert TIME.fullmatch(said["timestamp"])
    assert said["requestId"] == answer.headers["x-correlation-id"]
    assert said["message"]
    return said


async def jobs_of(graphs: Graphs, tenant: str = "default") -> int:
    return len(await graphs.engine.list_jobs(JobFilter(tenant)))


async def test_an_archive_becomes_a_graph(serve: Serve) -> None:  # G01, G03-G06
    async with serve(works=False) as graphs:
        answer = await graphs.post("call", zipped())
        assert answer.status_code == 202
        assert answer.headers["retry-after"] == "10"
        job_id = answer.json()["jobId"]
        assert answer.json() == {"status": "pending", "jobId": job_id, "retryAfter": 10}
        job = await graphs.engine.get(job_id)
        [upload] = await graphs.engine.store.files.list_uploads(job.tenant, job.id)
        assert upload.sha256 == hashlib.sha256(zipped()).hexdigest()  # G09
        again = await graphs.post("call")  # G04: polling is the same request, without its body
        assert (again.status_code, again.json()) == (202, answer.json())
        assert again.headers["idempotency-replayed"] == "true"
    async with serve() as graphs:  # after a restart
        await graphs.engine.wait(job_id, 60)
        done = await graphs.post("call")
        assert done.status_code == 200
        assert "retry-after" not in done.headers
        said = done.json()
        assert set(said) == {"status", "jobId", "retryAfter", "result"}
        assert (said["status"], said["jobId"], said["retryAfter"]) == ("completed", job_id, 0)
        assert set(said["result"]) == {"nodes", "edges", "stats"}
        calls = {
            (edge["source"], edge["target"])
            for edge in said["result"]["edges"]
            if edge["kind"] == "calls"
        }
        assert ("shop.till.pay", "shop.prices.price") in calls
        assert int(done.headers["content-length"]) == len(done.content)
        await graphs.sweep()
        assert not graphs.blobs()  # the archive is gone, and so small a graph is kept in its row


@pytest.mark.parametrize(
    ("path", "kinds"),
    [("dependency", {"imports"}), ("parse", {"defines"}), ("all", {"imports", "calls"})],
)
async def test_its_siblings(serve: Serve, path: str, kinds: set[str]) -> None:  # G02
    async with serve() as graphs:
        said = await graphs.ended(path, zipped())
        assert kinds <= {edge["kind"] for edge in said["result"]["edges"]}
        assert ("domains" in said["result"]) == (path == "all")


async def test_domains(serve: Serve) -> None:  # G39: nobody is asked for their names, unless told
    async with serve() as graphs:
        said = await graphs.ended("domain", zipped())
        [domain] = said["result"]["domains"]
        assert domain["name"] == "shop"
        assert domain["files"] == ["shop/__init__.py", "shop/prices.py", "shop/till.py"]
        assert await graphs.engine.steps(said["jobId"]) == []


async def test_a_form_does_too(serve: Serve) -> None:  # G01
    async with serve() as graphs:
        answer = await graphs.http.post(
            "/v1/graphs/parse",
            files={"file": ("shop.zip", zipped(), "application/zip")},
            headers={"Idempotency-Key": '"quoted"'},
        )
        assert answer.status_code == 202
        await graphs.engine.wait(answer.json()["jobId"], 60)
        assert (await graphs.post("parse", key="quoted")).json()["status"] == "completed"


async def test_one_that_is_worked_on_is_processing(serve: Serve) -> None:  # G06
    async with serve(works=False) as graphs:
        job_id = (await graphs.post("call", zipped())).json()["jobId"]
        await graphs.engine.store.workers.register_worker(worker_info("w"))
        [_] = (await graphs.engine.claim("w", ["graph"], 1)).claims
        answer = await graphs.post()
        assert (answer.status_code, answer.json()["status"]) == (202, "processing")
        await graphs.engine.store.workers.remove_worker("w", None, graphs.engine.clock.now())
        failed = await graphs.post()  # what died with its worker is not begun again
        assert (failed.status_code, failed.json()["status"]) == (200, "failed")
        assert failed.json()["error"].startswith("lost: ")
        assert (await graphs.engine.get(job_id)).attempt == 1


async def test_what_fails_says_why(serve: Serve) -> None:  # G05, G13
    async with serve() as graphs:
        said = await graphs.ended("call", zipped({"../evil.py": b"x"}))
        assert set(said) == {"status", "jobId", "retryAfter", "error"}
        assert said["status"] == "failed"
        assert said["error"].startswith("archive-unsafe-name: the archive has an entry named")
        await graphs.sweep()
        assert not graphs.blobs()


async def test_without_a_key_nothing_is_taken_in(serve: Serve) -> None:  # G01
    async with serve(works=False) as graphs:
        answer = await graphs.http.post("/v1/graphs/call", content=zipped(), headers=ZIP)
        assert "Idempotency-Key" in refused(answer, 400, "bad-request")["message"]
        refused(await graphs.post(key="x" * 256, content=zipped()), 400, "bad-request")
        assert (await jobs_of(graphs), graphs.blobs()) == (0, [])


async def test_nobody_polls_for_what_is_not_there(serve: Serve) -> None:
    async with serve(works=False) as graphs:
        refused(await graphs.post("call", b""), 404, "not-found")

        async def nothing() -> AsyncIterator[bytes]:
            pieces: list[bytes] = []
            for piece in pieces:
                yield piece

        headers = {"Idempotency-Key": "k", **ZIP}
        chunked = await graphs.http.post("/v1/graphs/call", content=nothing(), headers=headers)
        refused(chunked, 404, "not-found")
        form = await graphs.http.post(
            "/v1/graphs/call", files={"file": ("a.zip", b"")}, headers={"Idempotency-Key": "k"}
        )
        refused(form, 400, "bad-request")
        assert (await jobs_of(graphs), graphs.blobs()) == (0, [])


async def test_the_first_archive_under_a_key_counts(serve: Serve) -> None:  # G07
    async with serve(works=False) as graphs:
        first = await graphs.post("call", zipped())
        other = await graphs.post("parse", b"something else altogether")
        assert other.json() == first.json()
        assert (await graphs.post("call", zipped(), key="k2")).json() != first.json()
        assert (await jobs_of(graphs), len(graphs.blobs())) == (2, 2)


async def test_keys_belong_to_a_tenant_and_an_api_key(serve: Serve) -> None:  # G07, G40
    async with serve(works=False) as graphs:
        keeper = graphs.engine.authenticator
        made = [await keeper.create_key(tenant, ["jobs:write"]) for tenant in ("a", "a", "b")]
        answers = [
            (await graphs.post("call", zipped(), headers={"X-Api-Key": shown})).json()["jobId"]
            for _, shown in made * 2
        ]
        assert len(set(answers)) == 3
        assert answers[:3] == answers[3:]
        assert [await jobs_of(graphs, tenant) for tenant in ("a", "b")] == [2, 1]


async def test_each_poll_looks_at_the_key_again(serve: Serve) -> None:  # G27, G28, G35
    async with serve() as graphs:
        keeper = graphs.engine.authenticator
        key, shown = await keeper.create_key("shop", ["jobs:write:graph"])
        _, other = await keeper.create_key("shop", ["jobs:write:render", "jobs:read"])
        headers = {"X-Api-Key": shown}
        job_id = (await graphs.post("call", zipped(), headers=headers)).json()["jobId"]
        refused(await graphs.post("call", zipped(), headers={"X-Api-Key": other}), 403, "forbidden")
        refused(await graphs.post("call"), 401, "unauthorized")
        await keeper.put_tenant("shop", status=TenantStatus.UNPAID)
        refused(await graphs.post("call", headers=headers), 402, "payment-required")
        await keeper.put_tenant("shop", status=TenantStatus.ACTIVE)
        await graphs.engine.wait(job_id, 60, "shop")
        assert (await graphs.post("call", headers=headers)).status_code == 200
        await keeper.revoke_key(key.id)
        refused(await graphs.post("call", headers=headers), 401, "unauthorized")
        assert (await graphs.engine.get(job_id, "shop")).state == "succeeded"


async def test_of_those_who_come_together_one_wins(serve: Serve) -> None:  # G08
    async with serve(works=False) as graphs:
        begun, go = [asyncio.Event() for _ in range(3)], asyncio.Event()

        async def slowly(number: int) -> AsyncIterator[bytes]:
            whole = zipped({f"{number}.py": b"x = 1\n"})
            yield whole[:10]
            begun[number].set()
            await go.wait()
            yield whole[10:]

        headers = {"Idempotency-Key": "k", **ZIP}
        posts = [
            asyncio.create_task(
                graphs.http.post("/v1/graphs/call", content=slowly(number), headers=headers)
            )
            for number in range(3)
        ]
        for event in begun:
            await event.wait()
        go.set()
        answers = await asyncio.gather(*posts)
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["jobId"] for answer in answers}) == 1
        replayed = [answer for answer in answers if "idempotency-replayed" in answer.headers]
        assert len(replayed) == 2
        assert (await jobs_of(graphs), len(graphs.blobs())) == (1, 1)


async def test_a_key_is_free_when_its_job_is_gone(serve: Serve) -> None:  # G18
    async with serve() as graphs:
        said = await graphs.ended("call", zipped())
        graphs.clock.ahead_ms = 24 * 3_600_000 - 60_000
        await graphs.sweep()
        assert (await graphs.post("call")).json()["jobId"] == said["jobId"]
        graphs.clock.ahead_ms = 24 * 3_600_000 + 60_000
        await graphs.sweep()
        refused(await graphs.post("call"), 404, "not-found")
        assert (await graphs.post("call", zipped())).status_code == 202


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "text/plain"}, 415, "unsupported-media-type"),
        ({"Content-Encoding": "gzip"}, 415, "unsupported-media-type"),
        ({"Content-Length": str(LARGEST_UPLOAD + 1)}, 413, "too-large"),  # G11
        ({"Content-Type": "multipart/form-data"}, 400, "bad-request"),
        ({"Accept": "image/png"}, 406, "not-acceptable"),
    ],
)
async def test_what_is_refused_is_refused_in_one_shape(
    serve: Serve, headers: dict[str, str], status: int, code: str
) -> None:  # G38
    async with serve(works=False) as graphs:
        refused(await graphs.post("call", zipped(), headers=headers), status, code)
        assert (await jobs_of(graphs), graphs.blobs()) == (0, [])


async def test_so_is_what_the_router_refuses(serve: Serve) -> None:  # G38
    async with serve(works=False) as graphs:
        refused(await graphs.http.get("/v1/graphs/call"), 405, "method-not-allowed")
        refused(await graphs.post("nothing", zipped()), 404, "not-found")
        refused(await graphs.post("call?x=1", zipped()), 400, "bad-request")


async def test_one_that_was_cancelled_has_failed(serve: Serve) -> None:
    async with serve(works=False) as graphs:
        job_id = (await graphs.post("call", zipped())).json()["jobId"]
        await graphs.engine.cancel(job_id)
        said = (await graphs.post("call")).json()
        assert (said["status"], said["error"]) == ("failed", "cancelled")


async def test_it_is_described(serve: Serve) -> None:
    async with serve(works=False) as graphs:
        described = (await graphs.http.get("/openapi.json")).json()
        OpenAPIV31SpecValidator(described).validate()
        calls = {path for path in described["paths"] if path.startswith("/v1/graphs/")}
        assert calls == {f"/v1/graphs/{kind}" for kind in GraphKind}


async def test_it_is_a_job_like_any_other(serve: Serve) -> None:  # G34
    async with serve() as graphs:
        said = await graphs.ended("all", zipped())
        shown = (await graphs.http.get(f"/v1/jobs/{said['jobId']}")).json()
        assert (shown["surface"], shown["kind"], shown["queue"]) == ("graphs", "graph", "graphs")
        assert shown["result"]["files"] == 3
        assert shown["progress"] == {"done": 3, "total": 3, "message": "files"}
        graph = await graphs.http.get(f"/v1/jobs/{said['jobId']}/artifacts/graph.json")
        assert graph.json() == said["result"]


async def test_what_becomes_of_graphs_is_counted(serve: Serve) -> None:  # G35
    async with serve() as graphs:
        await graphs.ended("call", zipped())
        await graphs.ended("call", b"no zip", key="other")
        await graphs.post("call")
        lines = (await graphs.http.get("/metrics")).text.splitlines()
        found = dict(line.rsplit(" ", 1) for line in lines if line[0] != "#")
        for name, count in (
            ('jobs_submitted_total{kind="graph"}', 2),
            ('jobs_started_total{kind="graph"}', 2),
            ('jobs_finished_total{kind="graph",state="succeeded"}', 1),
            ('jobs_finished_total{kind="graph",state="failed"}', 1),
            ('job_run_seconds_count{kind="graph"}', 2),
            ('jobs_polled_total{kind="graph"}', 3),
        ):
            assert found[f"coatcheck_{name}"] == str(count), name
        assert float(found['coatcheck_job_run_seconds_sum{kind="graph"}']) > 0
        assert int(found['coatcheck_worker_polls_total{outcome="found"}']) == 2
        assert "# TYPE coatcheck_jobs_retried_total counter" in lines
