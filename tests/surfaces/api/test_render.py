"""Diagrams over HTTP, exactly as specified."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from coatcheck import App
from coatcheck.cli.server.runtime import open_engine
from coatcheck.engine.engine import Engine
from coatcheck.engine.maintenance.sweep import Sweeper
from coatcheck.errors import ConfigurationError
from coatcheck.http.auth.miss_limit import MISSES_PER_MINUTE
from coatcheck.model.access import TenantStatus
from coatcheck.model.job import DEFAULT_TENANT
from coatcheck.model.state import State
from coatcheck.settings import Settings
from coatcheck.store.base import JobFilter
from coatcheck.surfaces.render import links, submit
from coatcheck.surfaces.render.surface import RenderSurface
from tests.http.arrange import worker_info

from .conftest import Serve

pytestmark = pytest.mark.anyio

FLOW = {"source": "graph TD; A-->B;", "format": "mermaid", "outputType": "svg"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


async def submit_diagram(http: httpx2.AsyncClient, **fields: Any) -> str:
    answer = await http.post("/render", json={**FLOW, **fields})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["jobId"])


async def finished(http: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    await http.get(f"/v1/jobs/{job_id}?wait=60")
    answer = await http.get(f"/jobs/{job_id}")
    assert answer.status_code == 200
    return dict(answer.json())


@pytest.mark.parametrize("query", ["", "?mode=async"])
async def test_diagram_is_submitted_as_a_job(
    serve: Serve, query: str
) -> None:  # R01, R02, R03, R10
    async with serve(RenderSurface({}), works=False) as (http, _):
        answer = await http.post(f"/render{query}", json=FLOW)
        job_id = answer.json()["jobId"]
        assert answer.status_code == 202
        assert answer.json() == {
            "jobId": job_id,
            "status": "pending",
            "statusUrl": f"/jobs/{job_id}",
        }
        assert re.fullmatch("job_[0-9a-f]{8}", job_id)
        shown = (await http.get(f"/jobs/{job_id}")).json()  # R04
        assert shown == {"jobId": job_id, "status": "pending", "createdAt": shown["createdAt"]}
        assert TIME.fullmatch(shown["createdAt"])


async def test_picture_is_served_at_the_link_of_its_job(serve: Serve) -> None:  # R06, R12, R16, R24
    async with serve(RenderSurface({}), works=False) as (http, _):
        job_id = await submit_diagram(http)
    async with serve(RenderSurface({})) as (http, _):  # after a restart
        shown = await finished(http, job_id)
        assert set(shown) == {"jobId", "status", "createdAt", "completedAt", "result"}
        assert shown["status"] == "completed"
        shortlink = shown["result"]["shortlink"]
        assert shown["result"] == {"shortlink": shortlink, "url": f"/d/{shortlink}"}
        assert re.fullmatch("[A-Za-z0-9]{8}", shortlink)
        picture = await http.get(f"/d/{shortlink}")
        assert picture.headers["content-type"] == "image/svg+xml"
        assert picture.headers["cache-control"] == "public, max-age=300"  # R25
        assert picture.text.startswith("<svg")
        assert picture.headers["content-security-policy"] == (
            "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:"
        )
        assert picture.headers["x-content-type-options"] == "nosniff"
        assert picture.headers["referrer-policy"] == "no-referrer"
        tag = {"If-None-Match": picture.headers["etag"]}
        assert (await http.get(f"/d/{shortlink}", headers=tag)).status_code == 304


async def test_started_job_stays_rendering(serve: Serve) -> None:  # R05
    async with serve(RenderSurface({}), works=False) as (http, engine):
        job_id = await submit_diagram(http)
        await engine.store.workers.register_worker(worker_info("w"))
        [claim] = (await engine.claim("w", ["render"], 1)).claims
        for _ in range(2):  # R09, R17: running, then queued again because its worker is lost
            shown = (await http.get(f"/jobs/{job_id}")).json()
            assert set(shown) == {"jobId", "status", "createdAt", "startedAt"}
            assert shown["status"] == "rendering"
            await engine.store.workers.remove_worker("w", None, engine.clock.now())
        job = await engine.get(claim.lease.job_id)
        assert job.state == "queued"


async def test_invalid_source_fails_the_job(serve: Serve) -> None:  # R07
    async with serve(RenderSurface({})) as (http, _):
        shown = await finished(http, await submit_diagram(http, source="graph TD; A--"))
        assert set(shown) == {"jobId", "status", "createdAt", "completedAt", "error"}
        assert shown["status"] == "failed"
        assert "line 1" in shown["error"]
        waited = await http.post("/render?mode=sync", json={**FLOW, "source": "graph TD; A--"})
        assert (waited.status_code, waited.json()) == (400, {"error": shown["error"]})


# The engine works on this for many seconds before it rejects it.
EXPLODES = "classDiagram\n" + "\n".join(f" A{n} <|-- A{n * 7 % 400}" for n in range(4000))


@pytest.mark.parametrize(
    ("limits", "codes"),
    [
        ({"COATCHECK_RENDER_SECONDS": "1"}, {"timeout"}),
        ({"COATCHECK_RENDER_MEMORY": "4MB"}, {"out-of-memory", "worker-process-died"}),
    ],
    ids=["time", "memory"],
)
async def test_explosive_diagram_hits_the_process_limits_and_is_not_retried(
    serve: Serve, limits: dict[str, str], codes: set[str]
) -> None:
    async with serve(RenderSurface(limits), grace_s=0.5) as (http, engine):
        answer = await http.post("/render?mode=sync", json={**FLOW, "source": EXPLODES})
        assert (answer.status_code, list(answer.json())) == (500, ["error"]), answer.text
        [job] = await engine.list_jobs(JobFilter(DEFAULT_TENANT))
        assert (job.state, job.attempt) == (State.FAILED, 1)
        assert job.error is not None
        assert job.error.code in codes
        assert not job.error.retryable
        shown = (await http.get(f"/jobs/{job.public_id}")).json()
        assert (shown["status"], shown["error"]) == ("failed", answer.json()["error"])


@pytest.mark.parametrize(
    ("base_url", "begins"),
    [("", ""), ("https://pictures.example/app/", "https://pictures.example/app")],
)
async def test_urls_start_with_the_base_url(  # R02, R25
    serve: Serve, base_url: str, begins: str
) -> None:
    async with serve(RenderSurface({"BASE_URL": base_url})) as (http, engine):
        accepted = (await http.post("/render", json=FLOW)).json()
        assert accepted["statusUrl"] == f"{begins}/jobs/{accepted['jobId']}"
        await engine.wait(accepted["jobId"], 60)
        shown = (await http.get(f"/jobs/{accepted['jobId']}")).json()["result"]
        assert shown["url"] == f"{begins}/d/{shown['shortlink']}"


async def test_sync_mode_returns_the_link(serve: Serve) -> None:  # R03, R11, R25
    async with serve(RenderSurface({"BASE_URL": "https://pictures.example/"})) as (http, _):
        answer = await http.post("/render?mode=sync", json={**FLOW, "outputType": "png"})
        assert answer.status_code == 200
        shortlink = answer.json()["shortlink"]
        url = f"https://pictures.example/d/{shortlink}"
        assert answer.json() == {"shortlink": shortlink, "url": url}
        picture = await http.get(f"/d/{shortlink}")
        assert (picture.headers["content-type"], picture.content[:4]) == ("image/png", b"\x89PNG")
        again = await http.post("/render?mode=sync", json={**FLOW, "outputType": "png"})
        assert again.json() == {"shortlink": shortlink, "url": url, "cached": True}
        other = await http.post("/render?mode=sync", json=FLOW)
        assert other.json()["shortlink"] != shortlink


async def test_d2_is_drawn(serve: Serve) -> None:  # R11
    async with serve(RenderSurface({})) as (http, _):
        body = {"source": "a -> b: hello", "format": "d2"}  # R25: svg by default
        answer = await http.post("/render?mode=sync", json=body)
        assert answer.status_code == 200, answer.text
        assert "hello" in (await http.get(answer.json()["url"])).text


async def test_unknown_job_and_link(serve: Serve) -> None:  # R08
    async with serve(RenderSurface({}), works=False) as (http, _):
        for job_id in ("job_00000000", "none"):
            answer = await http.get(f"/jobs/{job_id}")
            assert (answer.status_code, answer.json()) == (404, {"error": "Job not found"})
        for shortlink in ("AAAAAAAA", "none", "..%2f..%2fx"):
            answer = await http.get(f"/d/{shortlink}")
            assert (answer.status_code, list(answer.json())) == (404, ["error"])


async def test_link_is_404_until_its_picture_is_drawn(serve: Serve) -> None:
    async with serve(RenderSurface({}), works=False) as (http, engine):
        job_id = await submit_diagram(http)
        job = await engine.get(job_id)
        await engine.store.workers.register_worker(worker_info("w"))
        [claimed] = (await engine.claim("w", ["render"], 1)).claims
        shortlink = re.findall(r'"shortlink":"(\w{8})"', claimed.input)[0]
        assert (await http.get(f"/d/{shortlink}")).status_code == 404
        assert job.public_id == job_id


async def test_jobs_are_deleted_after_their_retention(serve: Serve) -> None:  # R13
    async with serve(RenderSurface({"JOB_RETENTION_MS": "1"})) as (http, engine):
        answer = await http.post("/render?mode=sync", json=FLOW)
        await engine.pause_queue("render")
        waiting = await submit_diagram(http, source="graph TD; waits")
        [finished] = await engine.list_jobs(JobFilter(DEFAULT_TENANT, state=State.SUCCEEDED))
        sweeper = Sweeper(
            engine.store, engine.clock, lease_s=30, sweep_s=5, payload_store=engine.payload_store
        )
        async with asyncio.timeout(20):
            while (await http.get(f"/jobs/{finished.public_id}")).status_code != 404:
                await sweeper.sweep()
        assert (await http.get(answer.json()["url"])).status_code == 404
        assert (await http.get(f"/jobs/{waiting}")).json()["status"] == "pending"


async def links_of(engine: Engine) -> list[str]:
    found = await engine.store.records.list_records(DEFAULT_TENANT, links.LINKS, engine.clock.now())
    return [record.key for record in found]


async def test_link_is_deleted_after_its_job(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # R12, R13, P8
    surface = RenderSurface({})
    monkeypatch.setattr(links, "SWEEP_BATCH", 2)
    async with serve(surface) as (http, engine):
        drawn = [
            (await http.post("/render?mode=sync", json={**FLOW, "source": f"graph TD; {name}"}))
            for name in "abcde"
        ]
        made = {answer.json()["shortlink"] for answer in drawn}
        first, *_ = jobs = await engine.list_jobs(JobFilter(DEFAULT_TENANT))
        gone = json.loads((await engine.get(first.id)).result or "")["shortlink"]
        assert (await http.delete(f"/v1/jobs/{first.id}")).status_code == 200
        await surface.sweep(engine)
        assert set(await links_of(engine)) == made, "the job of a new link may not be written yet"
        monkeypatch.setattr(links, "MIN_AGE_MS", 0)
        for _ in range(4):
            await surface.sweep(engine)
        assert set(await links_of(engine)) == made - {gone}
        for job in jobs[1:]:
            await engine.delete(job.id)
        for _ in range(4):
            await surface.sweep(engine)
        assert await links_of(engine) == []


async def test_every_process_sweeps_dead_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MIN_AGE_MS", 0)
    app = App()
    app.use(RenderSurface({}))
    settings = Settings(database=f"sqlite:///{tmp_path}/jobs.db", sweep_s=0.05)
    async with open_engine(app, settings) as engine:
        nowhere = links.LinkedJob(DEFAULT_TENANT, "job_00000000")
        link = links.link_record(nowhere, "AAAAAAAA", engine.clock.now(), 1)
        await engine.store.records.put_record(link)
        async with asyncio.timeout(60):
            while await links_of(engine):  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)


async def test_colliding_id_is_replaced(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:  # R10
    chosen = iter(["00000001", "00000001", "00000002"])
    monkeypatch.setattr(submit, "token_hex", lambda _: next(chosen))
    async with serve(RenderSurface({}), works=False) as (http, _):
        assert await submit_diagram(http) == "job_00000001"
        assert await submit_diagram(http) == "job_00000002"


async def test_concurrent_submissions_are_neither_lost_nor_doubled(
    serve: Serve,
) -> None:  # R18, R19
    async with serve(RenderSurface({"QUEUE_MAX_WAITING": "2"})) as (http, engine):
        sources = [f"graph TD; A{number}-->B;" for number in range(20)]
        ids = await asyncio.gather(*(submit_diagram(http, source=source) for source in sources))
        assert len(set(ids)) == 20
        shown = await asyncio.gather(*(finished(http, job_id) for job_id in ids))
        assert {each["status"] for each in shown} == {"completed"}
        assert len({each["result"]["shortlink"] for each in shown}) == 20
        assert len(await engine.list_jobs(JobFilter(DEFAULT_TENANT))) == 20


async def test_sync_requests_are_rejected_if_too_many_wait(serve: Serve) -> None:  # R18, R25
    async with serve(RenderSurface({"QUEUE_MAX_WAITING": "3"}), works=False) as (http, _):
        for number in range(3):
            await submit_diagram(http, source=f"graph TD; A{number}")
        answer = await http.post("/render?mode=sync", json=FLOW)
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "5")
        assert list(answer.json()) == ["error"]
        await submit_diagram(http)  # asynchronous requests are still accepted


async def test_replayed_request_is_one_job(serve: Serve) -> None:
    async with serve(RenderSurface({}), works=False) as (http, _):
        key = {"Idempotency-Key": "k"}
        first = (await http.post("/render", json=FLOW, headers=key)).json()
        assert (await http.post("/render", json=FLOW, headers=key)).json() == first
        other = await http.post("/render", json={**FLOW, "source": "graph TD; X"}, headers=key)
        assert other.status_code == 422


async def test_replayed_request_does_not_change_the_cache(serve: Serve) -> None:  # R25
    async with serve(RenderSurface({})) as (http, engine):
        key = {"Idempotency-Key": "k"}
        first = await http.post("/render?mode=sync", json={**FLOW, "outputType": "png"})
        made = await http.post("/render", json=FLOW, headers=key)
        shown = await finished(http, made.json()["jobId"])
        again = await http.post("/render", json=FLOW, headers=key)
        assert again.json() == made.json()
        cached = (await http.post("/render?mode=sync", json=FLOW)).json()
        assert cached == {**shown["result"], "cached": True}
        other = await http.post("/render", json={**FLOW, "outputType": "png"}, headers=key)
        assert other.status_code == 422
        png = await http.post("/render?mode=sync", json={**FLOW, "outputType": "png"})
        assert png.json() == {**first.json(), "cached": True}
        assert len(await engine.list_jobs(JobFilter(DEFAULT_TENANT))) == 2


async def test_picture_outlives_its_cache_entry(  # R12, R25: CACHE_TTL bounds reuse only
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve(RenderSurface({"CACHE_TTL": "60000"})) as (http, engine):
        clock = engine.clock
        first = (await http.post("/render?mode=sync", json=FLOW)).json()
        assert (await http.post("/render?mode=sync", json=FLOW)).json()["cached"] is True
        now = clock.now()
        monkeypatch.setattr(clock, "now", lambda: now + 60_001)
        again = (await http.post("/render?mode=sync", json=FLOW)).json()
        assert "cached" not in again
        assert again["shortlink"] != first["shortlink"]
        assert (await http.get(first["url"])).status_code == 200
    async with serve(RenderSurface({"CACHE_TTL": "0"})) as (http, _):
        other = {**FLOW, "source": "graph TD; never cached"}
        for _ in range(2):
            assert "cached" not in (await http.post("/render?mode=sync", json=other)).json()


async def test_concurrency_is_limited(serve: Serve) -> None:  # R18, R25
    async with serve(RenderSurface({"QUEUE_MAX_CONCURRENT": "2"}), works=False) as (http, engine):
        for number in range(4):
            await submit_diagram(http, source=f"graph TD; A{number}")
        for name in ("v", "w"):
            await engine.store.workers.register_worker(worker_info(name))
        claimed = [
            len((await engine.claim(name, ["render"], 4)).claims) for name in ("v", "w", "w")
        ]
        assert claimed == [2, 0, 0]


def test_default_settings_match_the_specification() -> None:  # R13, R25
    figures = RenderSurface({}).settings
    assert (figures.retention_ms, figures.cache_ttl_ms) == (3_600_000, 300_000)
    assert (figures.max_concurrent, figures.max_waiting) == (10, 50)
    told = {
        "JOB_RETENTION_MS": "7",
        "CACHE_TTL": "0",
        "QUEUE_MAX_CONCURRENT": "3",
        "QUEUE_MAX_WAITING": "0",
    }
    figures = RenderSurface(told).settings
    assert (figures.retention_ms, figures.cache_ttl_ms) == (7, 0)
    assert (figures.max_concurrent, figures.max_waiting) == (3, 0)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "source"),
        ([], "JSON object"),
        ({**FLOW, "source": ""}, "source"),
        ({**FLOW, "source": 1}, "source"),
        ({**FLOW, "source": "x" * (256 * 1024 + 1)}, "source"),
        ({**FLOW, "format": "dot"}, "mermaid, d2"),
        ({**FLOW, "outputType": "gif"}, "svg, png"),
        ({**FLOW, "theme": "dark"}, "theme"),
    ],
)
async def test_invalid_input_is_rejected(serve: Serve, body: Any, says: str) -> None:  # R25
    async with serve(RenderSurface({}), works=False) as (http, engine):
        answer = await http.post("/render", json=body)
        assert (answer.status_code, list(answer.json())) == (400, ["error"])
        assert says in answer.json()["error"]
        assert await engine.list_jobs(JobFilter(DEFAULT_TENANT)) == []


async def test_other_invalid_requests(serve: Serve) -> None:
    async with serve(RenderSurface({}), works=False) as (http, _):
        assert (await http.post("/render?mode=fast", json=FLOW)).status_code == 400
        assert (await http.post("/render", content=b"x")).status_code == 415
        assert (await http.get("/render")).status_code == 405
        assert (await http.get("/health")).json() == {"status": "ok"}  # R25


async def test_only_links_need_no_key(serve: Serve) -> None:
    async with serve(RenderSurface({})) as (http, engine):
        answer = await http.post("/render?mode=sync", json=FLOW)
        _, key = await engine.authenticator.create_key("a", ["jobs:write"])
        assert (await http.get(answer.json()["url"])).status_code == 200
        refused = await http.post("/render", json=FLOW)
        assert (refused.status_code, list(refused.json())) == (401, ["error"])
        headers = {"X-Api-Key": key}
        mine = await http.post("/render?mode=sync", json=FLOW, headers=headers)
        # The cache must not reveal another tenant's pictures.
        assert (mine.status_code, "cached" in mine.json()) == (200, False)


@pytest.mark.parametrize("status", [TenantStatus.SUSPENDED, TenantStatus.UNPAID])
async def test_links_of_an_inactive_tenant_are_404(serve: Serve, status: TenantStatus) -> None:
    async with serve(RenderSurface({})) as (http, engine):
        _, key = await engine.authenticator.create_key("acme", ["jobs:write"])
        drawn = await http.post("/render?mode=sync", json=FLOW, headers={"X-Api-Key": key})
        url = drawn.json()["url"]
        assert (await http.get(url)).status_code == 200
        await engine.authenticator.put_tenant("acme", status=status)
        closed = await http.get(url)
        nowhere = await http.get("/d/aaaaaaaa")
        assert (closed.status_code, closed.json()) == (404, nowhere.json())
        await engine.authenticator.put_tenant("acme", status=TenantStatus.ACTIVE)
        assert (await http.get(url)).status_code == 200


async def test_guessing_links_is_rate_limited(serve: Serve) -> None:
    async with serve(RenderSurface({}), works=False) as (http, _):
        answers = [await http.get(f"/d/{number:08}") for number in range(10 * MISSES_PER_MINUTE)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {404, 429}
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert all(list(answer.json()) == ["error"] for answer in refused)
        assert refused


@pytest.mark.parametrize(
    "environment",
    [
        {"JOB_RETENTION_MS": "soon"},
        {"CACHE_TTL": "-1"},
        {"QUEUE_MAX_CONCURRENT": "0"},
        {"QUEUE_MAX_WAITING": "1.5"},
        {"BASE_URL": "ftp://x"},
        {"COATCHECK_RENDER_SECONDS": "0"},
        {"COATCHECK_RENDER_MEMORY": "much"},
        {"RENDER_ENGINE": "crayons"},
    ],
)
def test_invalid_setting_is_named(environment: dict[str, str]) -> None:
    [name] = environment
    with pytest.raises(ConfigurationError, match=name):
        RenderSurface(environment)


async def test_only_the_operator_can_enable_the_browser(
    serve: Serve,
) -> None:
    diagram = {"source": FLOW["source"], "format": "mermaid"}
    async with serve(RenderSurface({})) as (http, _):
        found = []
        for engine in ("chromium", "merman"):
            body = {"kind": "render", "input": {**diagram, "engine": engine}}
            job = (await http.post("/v1/jobs", json=body)).json()
            found.append((await http.get(f"/v1/jobs/{job['id']}?wait=60")).json())
        refused, drawn = found
        assert refused["state"] == "failed"
        assert refused["error"]["code"] == "engine-missing"
        assert refused["error"]["message"] == "the engine 'chromium' is not enabled on this server"
        assert drawn["state"] == "succeeded"


async def test_fork_with_its_own_input_cannot_choose_an_engine(serve: Serve) -> None:
    async with serve(RenderSurface({})) as (http, _):
        public_id = (await http.post("/render", json=FLOW)).json()["jobId"]
        source = (await http.get(f"/v1/jobs/{public_id}?wait=60")).json()
        diagram = {"source": FLOW["source"], "format": "mermaid", "engine": "chromium"}
        asked = {"from_step": 0, "input": {**diagram, "shortlink": "stolen12"}}
        fork = (await http.post(f"/v1/jobs/{source['id']}/fork", json=asked)).json()
        assert fork["surface"] == "render"
        stored = (await http.get(f"/v1/jobs/{fork['id']}/input")).json()
        assert (stored["engine"], stored["shortlink"]) == (None, None)
        drawn = (await http.get(f"/v1/jobs/{fork['id']}?wait=60")).json()
        assert drawn["state"] == "succeeded"
