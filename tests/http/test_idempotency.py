"""`Idempotency-Key`: a submit that is repeated under its key happens once."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.http.app import create_http_app
from coatcheck.store.sqlite.store import SQLiteStore
from coatcheck.worker.worker import Worker
from tests.http.arrange import JSON, StoppedClock, StoredJobs, connect
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

DAY_MS = 86_400_000
BODY: dict[str, Any] = {"kind": "echo", "input": {"b": [1, 2.5, None], "a": "é"}}


def key(value: str) -> dict[str, str]:
    return {"Idempotency-Key": value}


async def test_a_repeated_request_gets_the_same_job(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    first = await http.post("/v1/jobs", json=BODY, headers=key("order-1"))
    again = await http.post("/v1/jobs", json=BODY, headers=key("order-1"))

    assert first.status_code == again.status_code == 202
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["location"] == first.headers["location"]
    assert int(again.headers["retry-after"]) > 0
    assert again.json() == first.json()
    assert len(await stored_jobs()) == 1


async def test_a_job_that_has_ended_is_answered_with_200_and_its_result(
    http: httpx2.AsyncClient, worker: Worker
) -> None:
    wait = {**key("order-2"), "Prefer": "wait=60"}
    first = await http.post("/v1/jobs", json=BODY, headers=wait)
    assert first.status_code == 200

    again = await http.post("/v1/jobs", json=BODY, headers=key("order-2"))

    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert "retry-after" not in again.headers
    assert again.json() == first.json()
    assert again.json()["result"] == BODY["input"]


async def test_a_repeated_request_may_wait_too(http: httpx2.AsyncClient, engine: Engine) -> None:
    job = (await http.post("/v1/jobs", json=BODY, headers=key("order-3"))).json()
    again = asyncio.create_task(
        http.post("/v1/jobs", json=BODY, headers={**key("order-3"), "Prefer": "wait=60"})
    )
    await http.get(f"/v1/jobs/{job['id']}")
    await engine.cancel(job["id"])

    async with asyncio.timeout(20):
        answer = await again
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    assert answer.headers["preference-applied"] == "wait=60"


async def test_quoted_and_bare_are_the_same_key(http: httpx2.AsyncClient) -> None:
    answers = [
        await http.post("/v1/jobs", json=BODY, headers=key(given))
        for given in ('"order 4"', "order 4", ' "order 4" ')
    ]

    assert len({answer.json()["id"] for answer in answers}) == 1


async def test_the_order_of_members_and_the_space_between_do_not_matter(
    http: httpx2.AsyncClient,
) -> None:
    texts = [
        b'{"kind":"echo","input":{"a":1,"b":{"c":2,"d":3}}}',
        b' {\n "input" : {"b":{"d":3,"c":2},  "a":1},"kind":"echo" } ',
        b'{"kind":"ech\\u006f","input":{"a":1,"b":{"c":2,"d":3}}}',
    ]
    answers = [
        await http.post("/v1/jobs", content=text, headers={**JSON, **key("order-5")})
        for text in texts
    ]

    assert len({answer.json()["id"] for answer in answers}) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"kind": "echo"},
        {"kind": "echo", "input": {"b": [2.5, 1, None], "a": "é"}},
        {"kind": "echo", "input": {"b": [1, 2.5, None], "a": "e"}},
        {**BODY, "priority": 1},
        {**BODY, "kind": "answer_with", "input": "null"},
    ],
)
async def test_another_body_under_the_same_key_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, other: dict[str, Any]
) -> None:
    await http.post("/v1/jobs", json=BODY, headers=key("order-6"))

    answer = await http.post("/v1/jobs", json=other, headers=key("order-6"))

    read_problem(answer, 422, "idempotency-key-reused")
    assert len(await stored_jobs()) == 1


async def test_a_request_that_was_refused_leaves_its_key_free(http: httpx2.AsyncClient) -> None:
    bad = await http.post("/v1/jobs", json={"kind": "total", "input": 1}, headers=key("order-7"))
    assert bad.status_code == 422

    good = await http.post("/v1/jobs", json=BODY, headers=key("order-7"))

    assert good.status_code == 202
    assert "idempotency-replayed" not in good.headers


@pytest.mark.parametrize("good", ["a", "a" * 255, '"' + "a" * 255 + '"', "!~", "a b", "a,b"])
async def test_what_can_be_a_key(http: httpx2.AsyncClient, good: str) -> None:
    assert (await http.post("/v1/jobs", json=BODY, headers=key(good))).status_code == 202


@pytest.mark.parametrize(
    "bad", [b"", b'""', b"a" * 256, b'"' + b"a" * 256 + b'"', b"\xe9", b"a\tb", b'" a"', b"a\x7fb"]
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/batches"])
async def test_what_cannot_be_a_key_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, bad: bytes, path: str
) -> None:
    body = b'{"kind":"echo"}' if path == "/v1/jobs" else b'{"jobs":[{"kind":"echo"}]}'
    headers = [(b"Content-Type", b"application/json"), (b"Idempotency-Key", bad)]

    answer = await http.post(path, content=body, headers=headers)

    assert "Idempotency-Key" in read_problem(answer, 400, "bad-request")["detail"]
    assert await stored_jobs() == []


async def test_two_keys_are_refused(http: httpx2.AsyncClient) -> None:
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]

    read_problem(await http.post("/v1/jobs", json=BODY, headers=headers), 400, "bad-request")


async def test_fifty_at_once_make_one_job(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    answers = await asyncio.gather(
        *(http.post("/v1/jobs", json=BODY, headers=key("order-8")) for _ in range(50))
    )

    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    replayed = [answer for answer in answers if "idempotency-replayed" in answer.headers]
    assert len(replayed) == 49
    assert len(await stored_jobs()) == 1


async def test_fifty_different_ones_at_once_under_one_key_make_one_job(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    answers = await asyncio.gather(
        *(
            http.post("/v1/jobs", json={"kind": "echo", "input": n}, headers=key("order-9"))
            for n in range(50)
        )
    )

    assert sorted(answer.status_code for answer in answers) == [202] + [422] * 49
    assert len(await stored_jobs()) == 1


async def test_another_process_knows_the_key(
    http: httpx2.AsyncClient, store: SQLiteStore, engine: Engine
) -> None:
    first = await http.post("/v1/jobs", json=BODY, headers=key("order-10"))
    other = create_http_app(Engine(store, engine.kinds, engine.clock))

    async with connect(other) as elsewhere:
        again = await elsewhere.post("/v1/jobs", json=BODY, headers=key("order-10"))

    assert again.json()["id"] == first.json()["id"]


async def test_a_key_whose_job_was_deleted_answers_that_it_is_gone(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs
) -> None:
    job = (await http.post("/v1/jobs", json=BODY, headers=key("order-11"))).json()
    await http.post(f"/v1/jobs/{job['id']}/cancel")
    await http.delete(f"/v1/jobs/{job['id']}")

    answer = await http.post("/v1/jobs", json=BODY, headers=key("order-11"))

    read_problem(answer, 410, "gone")
    assert await stored_jobs() == []


async def test_a_key_holds_for_a_day_and_is_free_after_it(
    http: httpx2.AsyncClient, store: SQLiteStore, clock: StoppedClock
) -> None:
    first = (await http.post("/v1/jobs", json=BODY, headers=key("order-12"))).json()

    clock.milliseconds += DAY_MS - 1
    await store.maintenance.sweep(clock.now())
    still = (await http.post("/v1/jobs", json=BODY, headers=key("order-12"))).json()
    assert still["id"] == first["id"]

    clock.milliseconds += 1
    free = await http.post("/v1/jobs", json=BODY, headers=key("order-12"))
    assert free.json()["id"] != first["id"]
