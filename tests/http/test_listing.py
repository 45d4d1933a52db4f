"""`GET /v1/jobs`: pages that miss nothing and double nothing, filters, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from tests.http.arrange import NOW, NOW_TEXT, StoppedClock, Submit
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio


async def all_pages(http: httpx2.AsyncClient, **query: Any) -> list[str]:
    """Follow the cursors to the end and return every id in the order it came."""
    ids: list[str] = []
    while True:
        answer = await http.get("/v1/jobs", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        ids += [job["id"] for job in page["jobs"]]
        if page["next_cursor"] is None:
            return ids
        query = {**query, "cursor": page["next_cursor"]}


async def test_no_jobs_are_an_empty_page(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/jobs")

    assert answer.json() == {"jobs": [], "next_cursor": None}
    assert answer.headers["content-type"] == "application/json"


async def test_jobs_come_newest_first_and_look_as_they_do_alone_but_for_their_result(
    http: httpx2.AsyncClient, run: Submit, submit: Submit
) -> None:
    ended = await run("echo", "a result")
    queued = [await submit("total", {"customer": "c", "amounts": [n]}) for n in (1, 2)]

    page = (await http.get("/v1/jobs", params={"limit": 3})).json()

    assert [job["id"] for job in page["jobs"]] == [queued[1]["id"], queued[0]["id"], ended["id"]]
    assert page["jobs"][2] == {**ended, "result": None}


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 200])
async def test_pages_of_any_size_bring_every_job_once(
    http: httpx2.AsyncClient, submit: Submit, limit: int
) -> None:
    ids = [(await submit("echo"))["id"] for _ in range(7)]

    assert await all_pages(http, limit=limit) == list(reversed(ids))


async def test_a_full_last_page_has_no_cursor(http: httpx2.AsyncClient, submit: Submit) -> None:
    for _ in range(2):
        await submit("echo")

    assert (await http.get("/v1/jobs?limit=2")).json()["next_cursor"] is None


async def test_fifty_come_unless_told_otherwise(http: httpx2.AsyncClient) -> None:
    jobs = [{"kind": "echo"} for _ in range(51)]
    await http.post("/v1/batches", json={"jobs": jobs})

    page = (await http.get("/v1/jobs")).json()

    assert len(page["jobs"]) == 50
    assert len((await http.get(f"/v1/jobs?cursor={page['next_cursor']}")).json()["jobs"]) == 1


async def test_jobs_that_come_in_meanwhile_move_no_page(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    ids = [(await submit("echo"))["id"] for _ in range(6)]
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while query.get("cursor", "") is not None:
        page = (await http.get("/v1/jobs", params=query)).json()
        seen += [job["id"] for job in page["jobs"]]
        query["cursor"] = page["next_cursor"]
        await submit("echo", "late")
        # And one goes, which was seen or was not.
        await http.post(f"/v1/jobs/{ids[3]}/cancel")
        await http.delete(f"/v1/jobs/{ids[3]}")

    assert seen in (list(reversed(ids)), [one for one in reversed(ids) if one != ids[3]])


FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"state": "queued"}, {"plain", "order", "labelled", "both"}),
    ({"state": "cancelled"}, {"cancelled"}),
    ({"state": "running"}, set()),
    ({"kind": "total"}, {"order"}),
    ({"kind": "no such kind"}, set()),
    ({"queue": "orders"}, {"order"}),
    ({"queue": "orders", "kind": "echo"}, set()),
    ({"label": "team:blue"}, {"labelled", "both"}),
    ({"label": ["team:blue", "env:a:b"]}, {"both"}),
    ({"label": ["team:blue", "team:red"]}, set()),
    ({"label": "env:a"}, set()),
    ({"label": "team:"}, set()),
    ({"label": "team:blue", "state": "queued", "kind": "echo", "queue": "default"},
     {"labelled", "both"}),
    ({"created_after": "2033-05-18T03:33:20Z", "kind": "echo"},
     {"plain", "cancelled", "labelled", "both"}),
    ({"created_after": "2033-05-18T03:33:21.000Z"}, {"both"}),
    ({"created_after": "2033-05-18T05:33:21+02:00"}, {"both"}),
    ({"created_after": "2033-05-18T03:33:22Z"}, set()),
    ({"created_after": "0001-01-01T00:00:00Z", "label": "team:blue"}, {"labelled", "both"}),
]  # fmt: skip


@pytest.mark.parametrize(("query", "expected"), FILTERS, ids=[str(one) for one, _ in FILTERS])
async def test_filters_and_their_combinations(
    http: httpx2.AsyncClient,
    submit: Submit,
    clock: StoppedClock,
    query: dict[str, Any],
    expected: set[str],
) -> None:
    jobs = {
        "plain": await submit("echo"),
        "order": await submit("total", {"customer": "c", "amounts": []}),
        "cancelled": await submit("echo"),
        "labelled": await submit("echo", labels={"team": "blue"}),
    }
    clock.milliseconds += 1000
    jobs["both"] = await submit("echo", labels={"team": "blue", "env": "a:b"})
    await http.post(f"/v1/jobs/{jobs['cancelled']['id']}/cancel")

    for limit in (1, 100):
        found = set(await all_pages(http, limit=limit, **query))
        assert found == {jobs[name]["id"] for name in expected}


async def test_the_time_of_a_job_leads_back_to_it(http: httpx2.AsyncClient, submit: Submit) -> None:
    job = await submit("echo")
    assert job["created_at"] == NOW_TEXT

    for text in (NOW_TEXT, NOW_TEXT.replace("Z", "+00:00"), NOW_TEXT.replace("Z", "%2B00:00")):
        answer = await http.get(f"/v1/jobs?created_after={text}")
        assert [found["id"] for found in answer.json()["jobs"]] == [job["id"]]


def _cursor(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


BAD_CURSORS = [
    "",
    "x",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    _cursor(b"after:"),
    _cursor(b"after:x"),
    _cursor(b"after:01ARZ3NDEKTSV4RRFFQ69G5FAV!"),
    _cursor(b"after:01arz3ndektsv4rrffq69g5fav"),
    _cursor(b"before:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    _cursor(b"after:01ARZ3NDEKTSV4RRFFQ69G5FAV") + "=",
    _cursor(b"after:\xff\xff"),
    "%00",
    "é",
    "A" * 5000,
]


@pytest.mark.parametrize("cursor", BAD_CURSORS, ids=range(len(BAD_CURSORS)))
async def test_a_cursor_that_no_listing_gave_out_is_refused(
    http: httpx2.AsyncClient, cursor: str
) -> None:
    answer = await http.get("/v1/jobs", params={"cursor": cursor})

    assert "cursor" in read_problem(answer, 400, "bad-request")["detail"]


async def test_a_cursor_does_not_show_what_it_holds(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    ids = [(await submit("echo"))["id"] for _ in range(2)]

    cursor = (await http.get("/v1/jobs?limit=1")).json()["next_cursor"]

    assert ids[1] not in cursor
    assert cursor.isascii()
    assert httpx2.URL("http://localhost", params={"c": cursor}).query.decode() == f"c={cursor}"


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=201", "limit=-1", "limit=1.0", "limit=", "limit=ten", "limit=1e2",
        "limit=99999999999999999999999", "limit=%D9%A1", "limit=1&limit=2",
        "state=done", "state=", "state=QUEUED", "state=queued&state=running",
        "kind=a&kind=b", "queue=a&queue=b", "cursor=a&cursor=b",
        "label=", "label=team", "label=:blue", "label=a:b&label=c", "label=a:b%00",
        "created_after=", "created_after=yesterday", "created_after=2033-05-18",
        "created_after=2033-05-18T03:33:20", "created_after=99999-01-01T00:00:00Z",
        "created_after=9999-12-31T23:59:59-23:00",
        "kind=%00", "queue=a%00", "stat=queued", "Limit=5", "offset=5", "=",
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_refused(http: httpx2.AsyncClient, query: str) -> None:
    read_problem(await http.get(f"/v1/jobs?{query}"), 400, "bad-request")


async def test_text_that_no_job_can_have_finds_nothing(
    http: httpx2.AsyncClient, submit: Submit
) -> None:
    await submit("echo")

    for query in ("kind=%FF", "queue=" + "q" * 5000, "kind='--"):
        answer = await http.get(f"/v1/jobs?{query}")
        assert answer.status_code == 200, answer.text
        assert answer.json()["jobs"] == []


async def test_who_takes_no_json_is_told_so(http: httpx2.AsyncClient) -> None:
    answer = await http.get("/v1/jobs", headers={"Accept": "text/event-stream"})

    read_problem(answer, 406, "not-acceptable")


async def test_the_head_of_a_listing_is_that_of_the_listing(
    http: httpx2.AsyncClient, engine: Engine
) -> None:
    answer, head = await http.get("/v1/jobs"), await http.head("/v1/jobs")

    assert head.status_code == 200
    assert head.headers["content-length"] == answer.headers["content-length"]
    assert engine.clock.now() == NOW


async def test_jobs_are_found_by_when_they_were_submitted(
    http: httpx2.AsyncClient, submit: Submit, clock: StoppedClock
) -> None:
    ids = []
    for n in range(4):
        clock.milliseconds = NOW + 1_000 * n
        ids.append((await submit("echo"))["id"])

    within = {"created_after": "2033-05-18T03:33:21Z", "created_before": "2033-05-18T03:33:23Z"}
    assert await all_pages(http, **within, limit=1) == [ids[2], ids[1]]
    assert await all_pages(http, created_before=NOW_TEXT) == []
    answer = await http.get("/v1/jobs", params={"created_before": "soon"})
    read_problem(answer, 400, "bad-request")


async def test_jobs_are_found_by_the_job_that_spawned_them(
    http: httpx2.AsyncClient, engine: Engine, submit: Submit, claimer: str
) -> None:
    parent = await submit("echo", "parent")
    await submit("echo", "another")
    [claim] = (await engine.claim(claimer, ["echo"], 1)).claims
    children = [engine.child_of(claim, "echo", str(n)) for n in range(3)]
    for child in children:
        await engine.store.jobs.submit(child, NOW)

    spawned = await all_pages(http, parent=parent["id"], limit=2)

    assert spawned == [child.id for child in reversed(children)]
    assert await all_pages(http, parent=parent["id"], state="failed") == []
    assert await all_pages(http, parent=spawned[0]) == []
