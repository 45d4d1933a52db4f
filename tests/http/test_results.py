"""How jobs end, as their submitter reads it: any result, any error, always JSON."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from coatcheck.engine.engine import Engine
from coatcheck.worker.worker import Worker
from tests.http.arrange import Submit
from tests.http.kinds import ODD_ENDINGS, UNUSUAL_RESULTS

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("what", ["null", "false", "long", "unicode", "nul"])
async def test_a_result_comes_back_as_it_was_returned(run: Submit, what: str) -> None:
    job = await run("answer_with", what)

    assert job["state"] == "succeeded"
    assert job["result"] == UNUSUAL_RESULTS[what]
    assert job["error"] is None


async def test_a_result_that_json_has_no_number_for_is_null(run: Submit) -> None:
    job = await run("answer_with", "not a number")

    assert job["state"] == "succeeded"
    assert job["result"] == [None, None]


@pytest.mark.parametrize("what", ["half a surrogate", "not JSON"])
async def test_a_result_that_cannot_be_json_fails_the_job_for_good(run: Submit, what: str) -> None:
    job = await run("answer_with", what)

    assert job["state"] == "failed"
    assert job["reason"] == "error"
    assert job["attempt"] == 1
    assert job["result"] is None
    assert job["error"]["code"] == "invalid-result"
    assert job["error"]["retryable"] is False


async def test_a_handler_that_gives_up_says_why_with_its_own_code(run: Submit) -> None:
    job = await run("give_up", "sold out: 🎟️")

    assert job["state"] == "failed"
    assert job["attempt"] == 1
    assert job["error"] == {
        "code": "no-stock",
        "message": "sold out: 🎟️",
        "detail": None,
        "retryable": False,
    }


async def test_a_handler_that_crashes_tells_its_submitter_what_was_raised(run: Submit) -> None:
    job = await run("crash", "out of luck")

    assert job["state"] == "failed"
    assert job["reason"] == "error"
    assert job["error"]["code"] == "handler-error"
    assert job["error"]["message"] == "RuntimeError: out of luck"
    assert job["error"]["detail"].endswith("RuntimeError: out of luck\n")


@pytest.fixture
def uncaptured(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Keep texts that are not UTF-8 out of pytest's own report, which cannot carry them."""
    with caplog.at_level(logging.CRITICAL + 1, logger="coatcheck"):
        yield


@pytest.mark.usefixtures("uncaptured")
@pytest.mark.parametrize("how", ODD_ENDINGS)
async def test_however_a_handler_ends_its_job_ends_too_and_can_be_read(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, how: str
) -> None:
    job = await submit("end_oddly", how)

    answer = await http.get(f"/v1/jobs/{job['id']}?wait=2")

    assert answer.status_code == 200
    assert _strictly(answer)["state"] in {"succeeded", "failed"}


@pytest.mark.usefixtures("uncaptured")
@pytest.mark.parametrize("how", ["giving up with bytes", "error that cannot be told"])
async def test_a_job_that_ends_oddly_takes_along_none_that_ends_beside_it(
    http: httpx2.AsyncClient, submit: Submit, worker: Worker, engine: Engine, how: str
) -> None:
    # Paused meanwhile, the queue gives the worker all four at once.
    await engine.pause_queue("default")
    others = [await submit("echo", 1)]
    await submit("end_oddly_with_others", how)
    others += [await submit("echo", 2), await submit("echo", 3)]
    await engine.resume_queue("default")

    ended = [await http.get(f"/v1/jobs/{job['id']}?wait=2") for job in others]

    assert [answer.json()["state"] for answer in ended] == ["succeeded"] * 3


def _strictly(answer: httpx2.Response) -> dict[str, Any]:
    """Read JSON as other languages do: without NaN."""
    body: dict[str, Any] = json.loads(answer.content, parse_constant=_refuse)
    return body


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
