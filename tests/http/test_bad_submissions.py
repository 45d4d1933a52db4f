"""JSON that is not a job: 422 with a pointer to each problem, and nothing changed."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.http.arrange import JSON, StoredJobs
from tests.http.problems import read_problem

pytestmark = pytest.mark.anyio

ORDER = {"customer": "Ada", "amounts": [1]}

# What is wrong, the body, and the pointers (RFC 6901) to what is wrong.
BAD_SUBMISSIONS: dict[str, tuple[Any, list[str]]] = {
    "a list": ([], [""]),
    "a text": ("echo", [""]),
    "null": (None, [""]),
    "no kind": ({}, ["/kind"]),
    "kind is null": ({"kind": None}, ["/kind"]),
    "kind is a number": ({"kind": 1}, ["/kind"]),
    "unknown field": ({"kind": "echo", "inptu": 1}, ["/inptu"]),
    "unknown field with a slash": ({"kind": "echo", "a/b~c": 1}, ["/a~1b~0c"]),
    "queue is no name": ({"kind": "echo", "queue": "two words"}, ["/queue"]),
    "queue is empty": ({"kind": "echo", "queue": ""}, ["/queue"]),
    "queue is too long": ({"kind": "echo", "queue": "q" * 101}, ["/queue"]),
    "queue is a number": ({"kind": "echo", "queue": 1}, ["/queue"]),
    "priority too high": ({"kind": "echo", "priority": 1001}, ["/priority"]),
    "priority too low": ({"kind": "echo", "priority": -1001}, ["/priority"]),
    "priority beyond 64 bits": ({"kind": "echo", "priority": 2**64}, ["/priority"]),
    "priority is a fraction": ({"kind": "echo", "priority": 0.5}, ["/priority"]),
    "priority is a text": ({"kind": "echo", "priority": "5"}, ["/priority"]),
    "priority is a truth value": ({"kind": "echo", "priority": True}, ["/priority"]),
    "priority is null": ({"kind": "echo", "priority": None}, ["/priority"]),
    "labels are a list": ({"kind": "echo", "labels": ["a"]}, ["/labels"]),
    "label is a number": ({"kind": "echo", "labels": {"a": 1}}, ["/labels/a"]),
    "label key is empty": ({"kind": "echo", "labels": {"": "x"}}, ["/labels"]),
    "label key with a blank": ({"kind": "echo", "labels": {"a b": "x"}}, ["/labels"]),
    "label key is too long": ({"kind": "echo", "labels": {"k" * 64: "x"}}, ["/labels"]),
    "label is too long": ({"kind": "echo", "labels": {"a/b": "x" * 256}}, ["/labels/a~1b"]),
    "too many labels": (
        {"kind": "echo", "labels": {f"l{n}": "x" for n in range(33)}},
        ["/labels"],
    ),
    "deadline is zero": ({"kind": "echo", "deadline_s": 0}, ["/deadline_s"]),
    "deadline is negative": ({"kind": "echo", "deadline_s": -1.5}, ["/deadline_s"]),
    "deadline is too far": ({"kind": "echo", "deadline_s": 1e12}, ["/deadline_s"]),
    "deadline is beyond any float": ({"kind": "echo", "deadline_s": 10**400}, ["/deadline_s"]),
    "deadline is a text": ({"kind": "echo", "deadline_s": "5"}, ["/deadline_s"]),
    "no attempts": ({"kind": "echo", "max_attempts": 0}, ["/max_attempts"]),
    "too many attempts": ({"kind": "echo", "max_attempts": 1001}, ["/max_attempts"]),
    "attempts are a text": ({"kind": "echo", "max_attempts": "3"}, ["/max_attempts"]),
    "several at once": (
        {"kind": "echo", "queue": "", "priority": 9999, "max_attempts": 0},
        ["/queue", "/priority", "/max_attempts"],
    ),
    "input for a kind that takes none": ({"kind": "nothing", "input": 1}, ["/input"]),
    "no input": ({"kind": "total"}, ["/input"]),
    "input of another type": ({"kind": "total", "input": "Ada"}, ["/input"]),
    "input lacks a field": ({"kind": "total", "input": {"amounts": []}}, ["/input/customer"]),
    "input is wrong deep inside": (
        {"kind": "total", "input": {**ORDER, "amounts": [1, "two", 3, -4]}},
        ["/input/amounts/1", "/input/amounts/3"],
    ),
    "input is wrong at a key with a slash": (
        {"kind": "total", "input": {**ORDER, "notes": {"a/b~c": "x"}}},
        ["/input/notes/a~1b~0c"],
    ),
}


@pytest.mark.parametrize(("body", "pointers"), BAD_SUBMISSIONS.values(), ids=BAD_SUBMISSIONS.keys())
async def test_what_is_not_a_job_is_refused_with_pointers(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, body: Any, pointers: list[str]
) -> None:
    answer = await http.post("/v1/jobs", content=json.dumps(body).encode(), headers=JSON)

    problem = read_problem(answer, 422, "invalid-payload")
    assert [error["pointer"] for error in problem["errors"]] == pointers
    assert all(set(error) == {"pointer", "detail"} for error in problem["errors"])
    assert all(error["detail"] for error in problem["errors"])
    assert await stored_jobs() == []


@pytest.mark.parametrize("kind", ["", "no_such_kind", "Echo", "echo ", "x" * 1000, "🎟️"])
async def test_a_kind_nobody_declared_is_refused(
    http: httpx2.AsyncClient, stored_jobs: StoredJobs, kind: str
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": kind})

    detail = read_problem(answer, 422, "unknown-kind")["detail"]
    assert "echo" in detail, "the refusal says which kinds there are"
    assert await stored_jobs() == []


async def test_the_refusal_of_an_unknown_kind_points_to_it(http: httpx2.AsyncClient) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "no_such_kind"})

    [error] = read_problem(answer, 422, "unknown-kind")["errors"]
    assert error["pointer"] == "/kind"


@pytest.mark.parametrize(
    "field",
    [
        {"priority": 1000},
        {"priority": -1000},
        {"max_attempts": 1000},
        {"deadline_s": 0.001},
        {"deadline_s": 315_360_000},
        {"queue": "q" * 100},
        {"labels": {f"l{n}": "x" * 255 for n in range(32)}},
        {"labels": {"k" * 63: "naïve 🎟️"}},
    ],
    ids=lambda field: next(iter(field)),
)
async def test_the_limits_themselves_are_allowed(
    http: httpx2.AsyncClient, field: dict[str, Any]
) -> None:
    answer = await http.post("/v1/jobs", json={"kind": "echo", **field})

    assert answer.status_code == 202
    assert (await http.get(answer.headers["location"])).json() == {**answer.json(), "position": 1}
